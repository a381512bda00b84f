"""OffsetCommit: commits a group's offsets, which are visible once durable.

The records of a large commit are prepared in several turns, then decided and appended in one. So a group stores all of
a commit or none of it. Unknown partitions are refused one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice, repeat

from pipeline_broker.apis.authorization import authorize_group
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.offsets_to_commit import (
    ANSWER_COST,
    ANSWERED_IN_A_TURN,
    OffsetsToCommit,
    offsets_to_commit,
    partitions_of,
    topics_to_commit,
)
from pipeline_broker.apis.steps import Stepwise, in_steps
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_shard import GroupShard
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.commits import CommitRequest, CommitResult, PreparedOffsets
from pipeline_broker.state.outcome import Outcome
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from stages.request import NO_OP, Pending, Result

MISSING_GROUP_NAMED_FROM = 9
TOPIC_ID_FROM = 10

RequestPartition = OffsetCommitRequest.OffsetCommitRequestPartition
ResponseTopic = OffsetCommitResponse.OffsetCommitResponseTopic
ResponsePartition = OffsetCommitResponse.OffsetCommitResponsePartition


def handle(call: Call, request: OffsetCommitRequest) -> Stepwise[Result]:
    refused = _refused(call, request)
    if refused is not None:
        return call.send(error_response(request, call, refused))
    config, now_ms = call.broker.groups.config, call.broker.groups.time(call.now_ms)
    offsets = yield from offsets_to_commit(
        call,
        request.topics,
        functools.partial(topics_to_commit, call, request.topics, by_id=call.version >= TOPIC_ID_FROM),
        functools.partial(PreparedOffsets, request.group_id, config, now_ms, request.retention_time_ms),
    )
    refused = _refused(call, request)  # checked again: it may have changed between turns
    if refused is not None:
        return call.send(error_response(request, call, refused))
    now_ms = call.broker.groups.time(now_ms)
    groups = call.broker.groups.coordinator_of(request.group_id)
    if isinstance(groups, ErrorCode):
        codes = offsets.codes((groups,) * len(offsets.partitions))
        return (yield from call.send_in_steps(_response(request, codes)))
    result = _commit(groups, call, request, offsets, now_ms)
    outcome = Outcome(writes=[] if result.write is None else [result.write])
    codes = offsets.codes(result.errors)
    if len(offsets.refusals) <= ANSWERED_IN_A_TURN:
        return groups.answer_when_durable(outcome, now_ms, call.send(_response(request, codes)))
    stored = groups.answer_when_durable(outcome, now_ms, NO_OP)
    yield stored if isinstance(stored, Pending) else None
    answers = yield from in_steps(call, partitions_of(request.topics), lambda it: _answer(it, next(codes)), ANSWER_COST)
    return (yield from call.send_in_steps(_response_of(request, iter(answers))))


def _commit(
    groups: GroupShard, call: Call, request: OffsetCommitRequest, offsets: OffsetsToCommit, now_ms: int
) -> CommitResult:
    if not offsets.partitions:  # an empty commit must not create the group
        return CommitResult(())
    commit = CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        missing_group_named=call.version >= MISSING_GROUP_NAMED_FROM,
        partitions=offsets.partitions,
        prepared=offsets.prepared,
    )
    return groups.coordinator.commit(commit, now_ms)


def _refused(call: Call, request: OffsetCommitRequest) -> ErrorCode | None:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None if call.broker.can_write else ErrorCode.KAFKA_STORAGE_ERROR


def _answer(partition: RequestPartition, code: ErrorCode) -> ResponsePartition:
    return ResponsePartition(partition.partition_index, code)


def _response(request: OffsetCommitRequest, codes: Iterator[ErrorCode]) -> OffsetCommitResponse:
    return _response_of(request, map(_answer, partitions_of(request.topics), codes))


def _response_of(request: OffsetCommitRequest, answers: Iterator[ResponsePartition]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            ResponseTopic(wanted.name, wanted.topic_id, list(islice(answers, len(wanted.partitions))))
            for wanted in request.topics
        ]
    )


def error_response(
    request: OffsetCommitRequest,
    call: Call,
    code: ErrorCode,
) -> OffsetCommitResponse:
    return _response(request, repeat(code))
