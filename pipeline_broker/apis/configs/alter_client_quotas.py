"""AlterClientQuotas: sets and removes quotas of users, client ids, pairs of both, their defaults, and IP addresses.

The quotas of an entity change as a whole or not at all, independently of other entities. A change takes effect when it
is durable, before the response is sent. As in Apache Kafka, an entity that is named twice gets an error, and so does an
entity with two operations on one quota.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.quotas.entities import Entity, QuotaError, altered, entity_of
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.configs.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from stages.request import Result

Entry = AlterClientQuotasRequest.EntryData
EntryResponse = AlterClientQuotasResponse.EntryData


def handle(call: Call, request: AlterClientQuotasRequest) -> Result:
    if not authorize_cluster(call, AclOperation.ALTER_CONFIGS):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    quotas = call.broker.quotas
    errors: dict[Entity, QuotaError | None] = {}
    changes: dict[Entity, Mapping[str, float]] = {}
    for entry in request.entries:
        entity = _entity(entry)
        before = quotas.catalogue.latest(entity)
        try:
            after = _altered(entity, before, entry, is_known=entity in errors)
        except QuotaError as error:
            errors[entity] = error.with_traceback(None)  # the frames refer to `errors`: a reference cycle
            continue
        errors[entity] = None
        if after != before and not request.validate_only:
            changes[entity] = after
    answer = call.send(
        AlterClientQuotasResponse(entries=[_response(entity, error) for entity, error in errors.items()])
    )
    if not changes:
        return answer
    return call.broker.commit_metadata([(quotas.catalogue.alter(changes), quotas.durable)], call.now_ms, answer)


def _entity(entry: Entry) -> Entity:
    return entity_of((part.entity_type, part.entity_name) for part in entry.entity)


def _altered(entity: Entity, before: Mapping[str, float], entry: Entry, *, is_known: bool) -> dict[str, float]:
    keys = [operation.key for operation in entry.ops]
    if is_known or len(set(keys)) < len(keys):
        raise QuotaError(f"Ignoring duplicate entity {entity!r}")
    operations = [(operation.key, None if operation.remove else operation.value) for operation in entry.ops]
    return altered(entity, before, operations)


def _response(entity: Entity, error: QuotaError | None) -> EntryResponse:
    return EntryResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[AlterClientQuotasResponse.EntityData(kind, name) for kind, name in entity],
    )


def error_response(request: AlterClientQuotasRequest, call: Call, code: ErrorCode) -> AlterClientQuotasResponse:
    message = REFUSAL_TEXTS.get(code)
    parts = AlterClientQuotasResponse.EntityData
    return AlterClientQuotasResponse(
        entries=[
            EntryResponse(code, message, [parts(part.entity_type, part.entity_name) for part in entry.entity])
            for entry in request.entries
        ]
    )
