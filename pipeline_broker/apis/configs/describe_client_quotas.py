"""DescribeClientQuotas: the quotas of all entities that match a filter, in steps if there are many."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import Stepwise, everything, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.quotas.entities import Entity, QuotaError
from pipeline_broker.quotas.filters import Component, check_components, matches
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.configs.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from stages.request import Result

Response = DescribeClientQuotasResponse


def handle(call: Call, request: DescribeClientQuotasRequest) -> Stepwise[Result]:
    if not authorize_cluster(call, AclOperation.DESCRIBE_CONFIGS):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    components = [Component(one.entity_type, one.match_type, one.match) for one in request.components]
    try:
        check_components(components)
    except QuotaError as error:
        return call.send(Response(error_code=error.code, error_message=error.message, entries=None))
    described = yield from in_steps(
        call,
        (yield from everything(call.broker.quotas.catalogue.all().items())),
        lambda each: _entry(*each) if matches(each[0], components, strict=request.strict) else None,
    )
    entries = [entry for entry in described if entry is not None]
    return (yield from call.send_in_steps(Response(error_message=None, entries=entries)))


def _entry(entity: Entity, quotas: Mapping[str, float]) -> DescribeClientQuotasResponse.EntryData:
    return Response.EntryData(
        entity=[Response.EntityData(kind, name) for kind, name in entity],
        values=[Response.ValueData(key, value) for key, value in sorted(quotas.items())],
    )


def error_response(
    request: DescribeClientQuotasRequest,
    call: Call,
    code: ErrorCode,
) -> DescribeClientQuotasResponse:
    return Response(error_code=code, error_message=None, entries=None)
