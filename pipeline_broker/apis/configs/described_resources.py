"""The resource types that have settings, and the ACL checks for them.

The broker named "" stands for all brokers. Topics and groups have ACLs of their own; all other settings belong to the
cluster.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster, authorize_group, authorize_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.resources import CLIENT_METRICS, GROUP
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.topic_rules import TopicError

__all__ = ["BROKER", "BROKER_LOGGER", "CLIENT_METRICS", "GROUP", "RESOURCE_TYPES", "TOPIC", "check_allowed"]

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
RESOURCE_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def check_allowed(call: Call, operation: AclOperation, resource_type: int, name: str) -> None:
    """Check that the client may perform an operation on the settings of a resource.

    Raises:
        TopicError: the client may not. The code is that of the topic, the group or the cluster.
    """
    if resource_type == TOPIC:
        is_allowed, code = authorize_topic(call, operation, name), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif resource_type == GROUP:
        is_allowed, code = authorize_group(call, operation, name), ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        is_allowed, code = authorize_cluster(call, operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not is_allowed:
        raise TopicError(code, REFUSAL_TEXTS[code])
