"""CreateTopics: checks each topic in Kafka's order - name, settings, partitions - and creates the valid ones.

A topic that the request names twice is refused. The response is sent once all topics are durable and usable. With
`validate_only` it is the same, but nothing is created, and its topic ids refer to no topic. As in Apache Kafka, a
timeout of 0 or less creates nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from pipeline_broker.apis.authorization import authorize_cluster, authorize_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.durability import check_durability, warn_of_durability
from pipeline_broker.apis.steps import (
    CHANGE_COST,
    PARTITION_COST,
    Stepwise,
    commit_changes,
    create_logs,
    pending_changes,
    place_partitions,
)
from pipeline_broker.apis.throttling import check_changes
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.registered_schemas import check_schema_validation
from pipeline_broker.broker.topic_policies import flush_rules_of
from pipeline_broker.config.changes import check_topic_settings
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.resolution import topic_entries
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.topic_rules import PARTITIONS_MAX, UNSET, TopicError
from pipeline_broker.state.topics import NewTopic, duplicates
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from stages.request import Result

TopicResult = CreateTopicsResponse.CreatableTopicResult

# The first version that knows THROTTLING_QUOTA_EXCEEDED.
STRICT_FROM = 6

Changes = list[tuple["Write", Callable[["Write"], None]]]


def handle(call: Call, request: CreateTopicsRequest) -> Stepwise[Result]:
    if request.timeout_ms <= 0:
        return call.send(error_response(request, call, ErrorCode.REQUEST_TIMED_OUT))
    if sum(_partitions(call, topic) for topic in request.topics) > PARTITIONS_MAX:
        message = "Excessively large number of partitions per request."
        results = [_refusal(topic.name, ErrorCode.POLICY_VIOLATION, message) for topic in request.topics]
        return call.send(CreateTopicsResponse(topics=results))
    repeated = duplicates(topic.name for topic in request.topics)
    changes: Changes = []
    forbidden = _forbidden(call, request)
    results = [
        _refusal(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        for name in forbidden
        if name not in repeated
    ]
    for topic in request.topics:
        if topic.name not in repeated and topic.name not in forbidden:
            results.append((yield from _create(call, topic, request, changes)))
            if call.is_turn_over(CHANGE_COST + PARTITION_COST * max(results[-1].num_partitions, 0)):
                yield pending_changes(call, changes)
    results += [_refusal(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in sorted(repeated)]
    return (yield from commit_changes(call, changes, CreateTopicsResponse(topics=results)))


def _forbidden(call: Call, request: CreateTopicsRequest) -> dict[str, None]:
    if authorize_cluster(call, AclOperation.CREATE, is_logged=False):
        return {}
    return dict.fromkeys(
        topic.name for topic in request.topics if not authorize_topic(call, AclOperation.CREATE, topic.name)
    )


def _partitions(call: Call, topic: CreateTopicsRequest.CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return call.broker.topics.partitions_default if topic.num_partitions == UNSET else max(topic.num_partitions, 0)


def _create(
    call: Call, wanted: CreateTopicsRequest.CreatableTopic, request: CreateTopicsRequest, changes: Changes
) -> Stepwise[TopicResult]:
    """Decide about one topic; return its result, which holds once the changes are durable."""
    broker = call.broker
    try:
        broker.topics.check_new_name(wanted.name)
        given = _given_settings(wanted)
        new = NewTopic(
            name=wanted.name,
            topic_id=broker.new_id().bytes,
            partitions=wanted.num_partitions,
            replication_factor=wanted.replication_factor,
            assignments=[(placed.partition_index, placed.broker_ids) for placed in wanted.assignments],
            configs=check_topic_settings(given),
        )
        check_schema_validation(new.configs, broker.schemas, in_cluster=broker.members is not None)
        inherited, own = flush_rules_of({}, broker.settings), flush_rules_of(new.configs, broker.settings)
        check_durability(call, inherited, own)
        topic = broker.topics.check_create(new)
        broker.topics.check_room(topic.partitions, broker.config.pipeline_partitions)
        check_changes(call.quota, topic.partitions, strict=call.version >= STRICT_FROM)
        if not request.validate_only:
            placed = yield from place_partitions(call, changes, topic.name, topic, new.replicas, new.replication_factor)
            made = yield from create_logs(call, changes, topic, placed)
            broker.topics.check_room(
                topic.partitions, broker.config.pipeline_partitions
            )  # may have changed between turns
            changes.append((broker.topics.create(new, placed), functools.partial(broker.topic_durable, made=made)))
            warn_of_durability(f"topic {wanted.name}", inherited, own)
            broker.settings_warnings.warn_about_topic_settings(given)
    except TopicError as error:
        return _refusal(wanted.name, error.code, error.message)
    except ConfigError as error:
        return _refusal(wanted.name, ErrorCode.INVALID_CONFIG, error.client_message)
    if not authorize_topic(call, AclOperation.DESCRIBE_CONFIGS, topic.name, is_logged=False):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return TopicResult(name=topic.name, topic_id=topic.topic_id, error_message=None, topic_config_error_code=code)
    return _created(broker, topic, broker.topics.factor_of(new), given)


def _given_settings(wanted: CreateTopicsRequest.CreatableTopic) -> dict[str, str]:
    settings = {}
    for config in wanted.configs:
        if config.value is None:
            raise ConfigError(
                f"{config.name}: the value is missing", f"Null value not supported for topic configs: {config.name}"
            )
        settings[config.name] = config.value
    return settings


def _created(broker: Broker, topic: Topic, replication_factor: int, given: Mapping[str, str]) -> TopicResult:
    return TopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.partitions,
        replication_factor=replication_factor,
        configs=[
            CreateTopicsResponse.CreatableTopicConfigs(
                name=entry.definition.name, value=entry.value, config_source=entry.source
            )
            for entry in topic_entries(given, broker.settings)
        ],
    )


def _refusal(name: str, code: ErrorCode, message: str | None = None) -> TopicResult:
    return TopicResult(name=name, error_code=code, error_message=message)


def error_response(request: CreateTopicsRequest, call: Call, code: ErrorCode) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_refusal(topic.name, code) for topic in request.topics])
