"""ListConfigResources: the resources with settings; version 0 lists only client metrics subscriptions.

Groups and subscriptions are listed if they have settings of their own.
"""

from __future__ import annotations

from functools import partial

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.configs.described_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    RESOURCE_TYPES,
    TOPIC,
)
from pipeline_broker.apis.steps import Stepwise, everything, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.resources import RESOURCE_KINDS
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.configs.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from stages.request import Send

Resource = ListConfigResourcesResponse.ConfigResource

NAME_COST = 2
# The first version with resource types other than client metrics subscriptions.
TYPES_FROM = 1


def handle(call: Call, request: ListConfigResourcesRequest) -> Stepwise[Send]:
    if not authorize_cluster(call, AclOperation.DESCRIBE_CONFIGS):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    known = RESOURCE_TYPES if call.version >= TYPES_FROM else (CLIENT_METRICS,)
    wanted = request.resource_types or known
    if any(each not in known for each in wanted):
        return call.refuse(ErrorCode.UNSUPPORTED_VERSION)
    resources = []
    for each in dict.fromkeys(wanted):
        names = yield from everything(_names(call, each))
        resources += yield from in_steps(call, names, partial(Resource, resource_type=each), NAME_COST)
    return (yield from call.send_in_steps(ListConfigResourcesResponse(config_resources=resources)))


def _names(call: Call, resource_type: int) -> list[str]:
    broker = call.broker
    if resource_type == TOPIC:
        return broker.topics.names()
    if resource_type in {BROKER, BROKER_LOGGER}:
        return [str(each.broker_id) for each in broker.leadership.brokers(call.session.listener)]
    return broker.dynamic_settings.names(RESOURCE_KINDS[resource_type].key)
