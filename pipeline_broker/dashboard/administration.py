"""Changes and questions of the pages, as requests of Kafka's protocol."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_views import committed_offsets
from pipeline_broker.dashboard.wishes import (
    RequestError,
    amount,
    choice,
    number,
    optional_number,
    optional_text,
    pairs,
    text,
    texts,
)
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.murmur2 import partition_of
from pipeline_broker.security.acl import SUPPORTED, AclOperation, PatternType, PermissionType, ResourceType
from pipeline_broker.security.scram import ITERATIONS_MIN, SALT_BYTES, SCRAM_MECHANISMS, salted_password
from pipeline_broker.wire.messages.configs.alter_client_quotas import AlterClientQuotasRequest
from pipeline_broker.wire.messages.configs.describe_client_quotas import DescribeClientQuotasRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.offset_delete import OffsetDeleteRequest
from pipeline_broker.wire.messages.security.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pipeline_broker.wire.messages.security.create_acls import CreateAclsRequest
from pipeline_broker.wire.messages.security.delete_acls import DeleteAclsRequest
from pipeline_broker.wire.messages.security.describe_acls import DescribeAclsRequest
from pipeline_broker.wire.messages.security.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.state.metadata_records import Topic

__all__ = ["CHANGES", "QUESTIONS", "Change", "FieldRight", "Question", "refusal_in"]

TIMEOUT_MS = 10_000
DEFAULT = -1
ALL_ACKS = -1
END = -1  # DeleteRecords: the high watermark
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1
ANY = 1
COUNT_MAX = 2**31 - 1
HEADERS_MAX = 100
ROWS_MAX = 1000
SCRAM = {mechanism.number: mechanism.name for mechanism in SCRAM_MECHANISMS.values()}
RESOURCES = tuple(kind.name for kind in SUPPORTED)
OPERATIONS = ("ALL", *dict.fromkeys(operation.name for each in SUPPORTED.values() for operation in each))
PERMISSIONS = (PermissionType.ALLOW.name, PermissionType.DENY.name)
PATTERNS = (PatternType.LITERAL.name, PatternType.PREFIXED.name)
ENTITY_TYPES_MAX = 3
ELSEWHERE = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "another broker of the cluster leads the partition. Use a client",
    ErrorCode.NOT_COORDINATOR: "another broker of the cluster coordinates the group. Use a client",
}


FieldRight: TypeAlias = tuple[AclOperation, ResourceType, str]
"""A right on the resource whose name is in a field of the body."""


@attrs.frozen
class Change:
    """An entry of CHANGES.

    Attributes:
        request: builds the request from the JSON body; raises RequestError if the body is invalid, or if a topic or
            committed offsets in it do not exist.
        results: returns the parts of the response that have an error code.
        answer: returns the JSON for the page.
        first: the rights to check before `request`, which looks up a topic or a group: whether it exists is a secret.
        is_slow: run `request` in a thread. It then may not use the broker.
    """

    request: Callable[[Broker, Mapping[str, Any]], Any]
    results: Callable[[Any], Iterable[Any]]
    answer: Callable[[Any], dict[str, Any]] = lambda _: {}
    first: tuple[FieldRight, ...] = ()
    is_slow: bool = False


@attrs.frozen
class Question:
    """An entry of QUESTIONS.

    Attributes:
        rows: returns the rows of the response as JSON.
    """

    request: Callable[[], Any]
    rows: Callable[[Any], Iterable[dict[str, Any]]]


def refusal_in(results: Iterable[Any]) -> str | None:
    """Return the first error among results as one line; None if all succeeded."""
    for each in results:
        if each.error_code:
            code = ErrorCode(each.error_code)
            said = getattr(each, "error_message", None) or ELSEWHERE.get(code)
            return code.name + (f": {said}" if said else "")
    return None


# The body of a change


def _headers(body: Mapping[str, Any]) -> tuple[tuple[str, bytes], ...]:
    found = pairs(body, "headers")
    if len(found) > HEADERS_MAX:
        raise RequestError(f"the dashboard produces records with at most {HEADERS_MAX} headers, not {len(found)}")
    return tuple((name, value.encode()) for name, value in found)


def _topic(broker: Broker, body: Mapping[str, Any]) -> Topic:
    name = text(body, "topic")
    found = broker.topics.get(name)
    if found is None:
        raise RequestError(f"the topic {name!r} does not exist")
    return found


# Changes


def _create_topic(_: Broker, body: Mapping[str, Any]) -> CreateTopicsRequest:
    wanted = CreateTopicsRequest.CreatableTopic(
        name=text(body, "topic"),
        num_partitions=optional_number(body, "partitions", 1, COUNT_MAX) or DEFAULT,
        replication_factor=DEFAULT,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name, value) for name, value in texts(body, "settings").items()
        ],
    )
    return CreateTopicsRequest([wanted], timeout_ms=TIMEOUT_MS)


def _delete_topic(_: Broker, body: Mapping[str, Any]) -> DeleteTopicsRequest:
    return DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(text(body, "topic"))], timeout_ms=TIMEOUT_MS)


def _add_partitions(_: Broker, body: Mapping[str, Any]) -> CreatePartitionsRequest:
    count = number(body, "partitions", 1, COUNT_MAX)
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(text(body, "topic"), count, None)
    return CreatePartitionsRequest([wanted], timeout_ms=TIMEOUT_MS)


def _empty_topic(broker: Broker, body: Mapping[str, Any]) -> DeleteRecordsRequest:
    found = _topic(broker, body)
    # Otherwise only some of the partitions would lose their records.
    if len(broker.logs.partitions(found.name)) < found.partitions:
        raise RequestError("other brokers of the cluster lead partitions of the topic. Use a client")
    every = [DeleteRecordsRequest.DeleteRecordsPartition(index, END) for index in range(found.partitions)]
    return DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(found.name, every)], timeout_ms=TIMEOUT_MS)


def _configure(broker: Broker, body: Mapping[str, Any]) -> IncrementalAlterConfigsRequest:
    topic, value = optional_text(body, "topic"), optional_text(body, "value")
    operation = DELETE if value is None else SET
    setting = IncrementalAlterConfigsRequest.AlterableConfig(text(body, "setting"), operation, value)
    kind, name = (BROKER_RESOURCE, str(broker.config.node_id)) if topic is None else (TOPIC_RESOURCE, topic)
    return IncrementalAlterConfigsRequest([IncrementalAlterConfigsRequest.AlterConfigsResource(kind, name, [setting])])


def _produce(broker: Broker, body: Mapping[str, Any]) -> ProduceRequest:
    found, key, value = _topic(broker, body), optional_text(body, "key"), optional_text(body, "value")
    key_bytes = None if key is None else key.encode()
    partition = optional_number(body, "partition", 0, COUNT_MAX)
    if partition is None:  # like Kafka's clients
        partition = 0 if key_bytes is None else partition_of(key_bytes, found.partitions)
    record = NewRecord(
        None if value is None else value.encode(),
        key_bytes,
        broker.ports.clock_ms(),
        _headers(body),
    )
    data = ProduceRequest.PartitionProduceData(partition, build_batch([record]))
    topic = ProduceRequest.TopicProduceData(name=found.name, topic_id=found.topic_id, partition_data=[data])
    return ProduceRequest(acks=ALL_ACKS, timeout_ms=TIMEOUT_MS, topic_data=[topic])


def _delete_group(_: Broker, body: Mapping[str, Any]) -> DeleteGroupsRequest:
    return DeleteGroupsRequest([text(body, "group")])


def _delete_offsets(broker: Broker, body: Mapping[str, Any]) -> OffsetDeleteRequest:
    group, topic = text(body, "group"), text(body, "topic")
    partitions = [
        OffsetDeleteRequest.OffsetDeleteRequestPartition(view.partition)
        for view in committed_offsets(broker, group, topic)
    ]
    if not partitions:
        raise RequestError(f"the group {group!r} has no committed offsets of the topic {topic!r}")
    return OffsetDeleteRequest(group, [OffsetDeleteRequest.OffsetDeleteRequestTopic(topic, partitions)])


def _deleted_offsets(response: Any) -> Iterable[Any]:
    yield response
    for topic in response.topics:
        yield from topic.partitions


def _produced(response: Any) -> dict[str, Any]:
    (partition,) = response.responses[0].partition_responses
    return {"partition": partition.index, "offset": partition.base_offset}


def _acl(body: Mapping[str, Any]) -> tuple[ResourceType, str, PatternType, str, str, AclOperation, PermissionType]:
    return (
        ResourceType[choice(body, "resource", RESOURCES)],
        text(body, "name"),
        PatternType[choice(body, "pattern", PATTERNS)],
        text(body, "principal"),
        text(body, "host"),
        AclOperation[choice(body, "operation", OPERATIONS)],
        PermissionType[choice(body, "permission", PERMISSIONS)],
    )


def _create_acl(_: Broker, body: Mapping[str, Any]) -> CreateAclsRequest:
    return CreateAclsRequest([CreateAclsRequest.AclCreation(*_acl(body))])


def _delete_acl(_: Broker, body: Mapping[str, Any]) -> DeleteAclsRequest:
    return DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(*_acl(body))])


def _deleted_acl(response: Any) -> Iterable[Any]:
    for found in response.filter_results:
        yield from (found, *found.matching_acls)


def _set_password(_: Broker, body: Mapping[str, Any]) -> AlterUserScramCredentialsRequest:
    user, mechanism = text(body, "user"), SCRAM_MECHANISMS[choice(body, "mechanism", SCRAM_MECHANISMS)]
    salt = secrets.token_bytes(SALT_BYTES)
    salted = salted_password(mechanism, text(body, "password"), salt, ITERATIONS_MIN)
    request = AlterUserScramCredentialsRequest
    return request([], [request.ScramCredentialUpsertion(user, mechanism.number, ITERATIONS_MIN, salt, salted)])


def _delete_password(_: Broker, body: Mapping[str, Any]) -> AlterUserScramCredentialsRequest:
    mechanism = SCRAM_MECHANISMS[choice(body, "mechanism", SCRAM_MECHANISMS)]
    request = AlterUserScramCredentialsRequest
    return request([request.ScramCredentialDeletion(text(body, "user"), mechanism.number)], [])


def _set_quota(_: Broker, body: Mapping[str, Any]) -> AlterClientQuotasRequest:
    given, value = body.get("of"), amount(body, "value")
    if not isinstance(given, dict) or not 0 < len(given) <= ENTITY_TYPES_MAX:
        raise RequestError('of must be an object such as {"user": "alice"}, in which null is the default')
    request = AlterClientQuotasRequest
    entity = [request.EntityData(kind, optional_text(given, kind)) for kind in given]
    change = request.OpData(text(body, "quota"), 0.0 if value is None else value, value is None)
    return request([request.EntryData(entity, [change])])


CHANGES: dict[str, Change] = {
    "create-topic": Change(_create_topic, lambda response: response.topics),
    "delete-topic": Change(_delete_topic, lambda response: response.responses),
    "add-partitions": Change(_add_partitions, lambda response: response.results),
    "empty-topic": Change(
        _empty_topic,
        lambda response: response.topics[0].partitions,
        first=((AclOperation.DELETE, ResourceType.TOPIC, "topic"),),
    ),
    "configure": Change(_configure, lambda response: response.responses),
    "produce": Change(
        _produce,
        lambda response: response.responses[0].partition_responses,
        _produced,
        first=((AclOperation.WRITE, ResourceType.TOPIC, "topic"),),
    ),
    "delete-group": Change(_delete_group, lambda response: response.results),
    "delete-offsets": Change(
        _delete_offsets,
        _deleted_offsets,
        first=((AclOperation.DELETE, ResourceType.GROUP, "group"), (AclOperation.READ, ResourceType.TOPIC, "topic")),
    ),
    "create-acl": Change(_create_acl, lambda response: response.results),
    "delete-acl": Change(_delete_acl, _deleted_acl),
    "set-password": Change(_set_password, lambda response: response.results, is_slow=True),
    "delete-password": Change(_delete_password, lambda response: response.results),
    "set-quota": Change(_set_quota, lambda response: response.entries),
}
"""By the last part of the path."""


# Questions


def _every_rule() -> DescribeAclsRequest:
    return DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)


def _rules(response: Any) -> Iterable[dict[str, Any]]:
    for resource in response.resources:
        for rule in resource.acls:
            yield {
                "principal": rule.principal,
                "permission": PermissionType(rule.permission_type).name,
                "operation": AclOperation(rule.operation).name,
                "resource": ResourceType(resource.resource_type).name,
                "name": resource.resource_name,
                "pattern": PatternType(resource.pattern_type).name,
                "host": rule.host,
            }


def _users(response: Any) -> Iterable[dict[str, Any]]:
    for user in response.results:
        for credential in user.credential_infos:
            yield {"user": user.user, "mechanism": SCRAM[credential.mechanism], "iterations": credential.iterations}


def _quotas(response: Any) -> Iterable[dict[str, Any]]:
    for entry in response.entries or []:
        of = {each.entity_type: each.entity_name for each in entry.entity}  # None is the default
        for value in entry.values:
            yield {"of": of, "quota": value.key, "value": value.value}


QUESTIONS: dict[str, Question] = {
    "acls": Question(_every_rule, _rules),
    "users": Question(lambda: DescribeUserScramCredentialsRequest(None), _users),
    "quotas": Question(DescribeClientQuotasRequest, _quotas),
}
"""By the last part of the path."""
