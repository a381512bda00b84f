"""CreatePartitions: increases the partition count of topics.

The requested count is the new total. A topic that the request names twice is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from pipeline_broker.apis.authorization import authorize_topic
from pipeline_broker.apis.call import Call
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
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.topic_rules import TopicError
from pipeline_broker.state.topics import duplicates
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from stages.request import Result

TopicResult = CreatePartitionsResponse.CreatePartitionsTopicResult
# The first version that knows THROTTLING_QUOTA_EXCEEDED.
STRICT_FROM = 3
# The number of partitions decides which partition holds a group or transaction.
FIXED_TEXT = "The partitions of {} are fixed: with more of them, coordinators would not find their records."


def handle(call: Call, request: CreatePartitionsRequest) -> Stepwise[Result]:
    if request.timeout_ms <= 0:
        return call.send(error_response(request, call, ErrorCode.REQUEST_TIMED_OUT))
    catalogue = call.broker.topics
    repeated = duplicates(topic.name for topic in request.topics)
    results = [TopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in sorted(repeated)]
    changes: list[tuple[Write, Callable[[Write], None]]] = []
    for topic in request.topics:
        if topic.name in repeated:
            continue
        if not authorize_topic(call, AclOperation.ALTER, topic.name):
            results.append(TopicResult(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if topic.name in call.broker.coordinators:
            results.append(TopicResult(topic.name, ErrorCode.INVALID_REQUEST, FIXED_TEXT.format(topic.name)))
            continue
        assignments = None if topic.assignments is None else [placed.broker_ids for placed in topic.assignments]
        try:
            grown = catalogue.check_add_partitions(topic.name, topic.count, assignments)
            before = catalogue.latest(topic.name)
            assert before is not None, "check_add_partitions refuses unknown topics"
            added = grown.partitions - before.partitions
            catalogue.check_room(added, call.broker.config.pipeline_partitions)
            check_changes(call.quota, added, strict=call.version >= STRICT_FROM)
            if not request.validate_only:
                placed = yield from place_partitions(call, changes, topic.name, grown, assignments or ())
                made = yield from create_logs(call, changes, grown, placed)
                catalogue.check_room(added, call.broker.config.pipeline_partitions)  # may have changed between turns
                write = catalogue.add_partitions(topic.name, topic.count, assignments, placed)
                changes.append((write, functools.partial(call.broker.topic_durable, made=made)))
        except TopicError as error:
            results.append(TopicResult(topic.name, error.code, error.message))
        else:
            results.append(TopicResult(topic.name))
        if call.is_turn_over(CHANGE_COST + PARTITION_COST * max(topic.count, 0) * bool(changes)):
            yield pending_changes(call, changes)
    return (yield from commit_changes(call, changes, CreatePartitionsResponse(results=results)))


def error_response(
    request: CreatePartitionsRequest,
    call: Call,
    code: ErrorCode,
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[TopicResult(topic.name, code) for topic in request.topics])
