"""DeleteTopics: deletes topics by name, and from version 6 also by id.

A topic that the request names twice is refused, even if once by name and once by id. The response is sent once the
deletion is durable. By then the logs are deleted, and fetches that waited for them have been answered.
"""

from __future__ import annotations

from collections import Counter

from pipeline_broker.apis.authorization import authorize_cluster, authorize_topic
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.steps import (
    CHANGE_COST,
    PARTITION_COST,
    Stepwise,
    commit_changes,
    pending_changes,
    place_partitions,
)
from pipeline_broker.apis.throttling import check_changes
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.metadata_log import Change
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.placed_partitions import PlacedPartitions
from pipeline_broker.state.topic_rules import TopicError
from pipeline_broker.state.topics import duplicates
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Result

Wanted = DeleteTopicsRequest.DeleteTopicState
TopicResult = DeleteTopicsResponse.DeletableTopicResult

IDS_FROM = 6
# The first version that knows THROTTLING_QUOTA_EXCEEDED.
STRICT_FROM = 5
# The first version that knows TOPIC_DELETION_DISABLED.
DISABLED_FROM = 3
MESSAGES = {
    **REFUSAL_TEXTS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}


def handle(call: Call, request: DeleteTopicsRequest) -> Stepwise[Result]:
    if not call.broker.config.delete_topic_enable:
        disabled = ErrorCode.TOPIC_DELETION_DISABLED if call.version >= DISABLED_FROM else ErrorCode.INVALID_REQUEST
        return call.send(error_response(request, call, disabled))
    if request.timeout_ms <= 0:
        return call.send(error_response(request, call, ErrorCode.REQUEST_TIMED_OUT))
    found: list[Topic] = []
    results = _sort_out(call, _wanted(call, request), found)
    changes: list[Change] = []
    for topic in found:
        try:
            check_changes(call.quota, topic.partitions, strict=call.version >= STRICT_FROM)
        except TopicError as error:
            results.append(_refusal(topic.name, topic.topic_id, error.code, error.message))
            continue
        placed = yield from place_partitions(call, changes, topic.name, None)
        if _existing(call, topic) is None:  # another request deleted it between turns
            results.append(_refusal(topic.name, topic.topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        changes += _delete(call, topic, placed)
        results.append(TopicResult(name=topic.name, topic_id=topic.topic_id))
        if call.is_turn_over(CHANGE_COST + PARTITION_COST * topic.partitions):
            yield pending_changes(call, changes)
    return (yield from commit_changes(call, changes, DeleteTopicsResponse(responses=results)))


def _delete(call: Call, topic: Topic, placed: PlacedPartitions | None) -> list[Change]:
    broker = call.broker
    changes: list[Change] = [(broker.topics.delete(topic.name, placed), broker.topic_durable)]
    forgotten = broker.log_starts.forget(topic.topic_id)
    # After the topic's own record: if only a part of them survives a crash, the topic still has its log start offset.
    if forgotten is not None:
        changes.append((forgotten, broker.log_start_durable))
    return changes


def _wanted(call: Call, request: DeleteTopicsRequest) -> list[Wanted]:
    return request.topics if call.version >= IDS_FROM else [Wanted(name=name) for name in request.topic_names]


def _sort_out(call: Call, wanted: list[Wanted], found: list[Topic]) -> list[TopicResult]:
    results, named, ids = _refuse_unclear(wanted)
    by_id = {topic_id: _existing(call, call.broker.topics.by_id(topic_id)) for topic_id in ids}
    may_all = authorize_cluster(call, AclOperation.DELETE, is_logged=False)
    for name in named:
        topic = _existing(call, call.broker.topics.get(name))
        # Checked before existence, so that the error does not reveal whether the topic exists.
        if not may_all and not authorize_topic(call, AclOperation.DESCRIBE, name):
            results.append(_refusal(name, UUID_ZERO, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic is None:
            results.append(_refusal(name, UUID_ZERO, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif not may_all and not authorize_topic(call, AclOperation.DELETE, name):
            results.append(_refusal(name, UUID_ZERO, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif topic.topic_id in by_id:
            message = "The provided topic name maps to an ID that was already supplied."
            results.append(_refusal(name, topic.topic_id, ErrorCode.INVALID_REQUEST, message))
            del by_id[topic.topic_id]
        else:
            found.append(topic)
    for topic_id, topic in by_id.items():
        if topic is None:
            results.append(_refusal(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        elif not may_all and not authorize_topic(call, AclOperation.DELETE, topic.name):
            name_shown = (
                topic.name if authorize_topic(call, AclOperation.DESCRIBE, topic.name, is_logged=False) else None
            )
            results.append(_refusal(name_shown, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            found.append(topic)
    return results


def _existing(call: Call, topic: Topic | None) -> Topic | None:
    """Return the topic; None if it is missing, or if its deletion is decided, though not durable."""
    latest = None if topic is None else call.broker.topics.latest(topic.name)
    return topic if latest is not None and topic is not None and latest.topic_id == topic.topic_id else None


def _refuse_unclear(wanted: list[Wanted]) -> tuple[list[TopicResult], list[str], list[bytes]]:
    """Return the results of invalid and duplicate entries, then the valid names and the valid ids."""
    results = []
    names: list[str] = []
    ids: Counter[bytes] = Counter()
    for topic in wanted:
        if topic.name is None and topic.topic_id == UUID_ZERO:
            message = "Neither topic name nor id were specified."
        elif topic.name is not None and topic.topic_id != UUID_ZERO:
            message = "You may not specify both topic name and topic id."
        else:
            if topic.name is None:
                ids[topic.topic_id] += 1
            else:
                names.append(topic.name)
            continue
        results.append(_refusal(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, message))
    repeated = duplicates(names)
    results += [
        _refusal(name, UUID_ZERO, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in sorted(repeated)
    ]
    for topic_id in [topic_id for topic_id, count in ids.items() if count > 1]:
        results.append(_refusal(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id."))
        del ids[topic_id]
    return results, [name for name in names if name not in repeated], list(ids)


def _refusal(name: str | None, topic_id: bytes, code: ErrorCode, message: str | None = None) -> TopicResult:
    return TopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message or MESSAGES.get(code))


def error_response(request: DeleteTopicsRequest, call: Call, code: ErrorCode) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            TopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code) for topic in _wanted(call, request)
        ]
    )
