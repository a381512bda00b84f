"""AlterShareGroupOffsets: sets the start offsets of a share group without members.

It creates a missing group, and discards the group's record states of the partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import authorize_group, authorize_topic
from pipeline_broker.apis.coordinator_topic import with_share_state_topic
from pipeline_broker.apis.refusals import REFUSAL_TEXTS
from pipeline_broker.apis.share.share_group_changes import UNKNOWN_TEXT, check_empty, commit
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.appended import Appended
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.groups.share.messages import ShareGroupError
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.broker.group_shard import GroupShard
    from pipeline_broker.state.groups.share.share_group import ShareGroup
    from pipeline_broker.state.outcome import StateRecord

WantedTopic = AlterShareGroupOffsetsRequest.Topic
Topic = AlterShareGroupOffsetsResponse.Topic
Partition = AlterShareGroupOffsetsResponse.Partition
UNINITIALIZED = -1


def handle(call: Call, request: AlterShareGroupOffsetsRequest) -> Result:
    if not authorize_group(call, AclOperation.READ, request.group_id):
        return call.send(error_response(request, call, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    groups = call.broker.groups.coordinator_of_named(request.group_id)
    if isinstance(groups, ErrorCode):
        return call.send(error_response(request, call, groups))
    return with_share_state_topic(
        call,
        busy=lambda: call.send(error_response(request, call, ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        then=lambda: _change(call, request),
    )


def _change(call: Call, request: AlterShareGroupOffsetsRequest) -> Result:
    groups = call.broker.groups.coordinator_of(request.group_id)
    if isinstance(groups, ErrorCode):  # the topic was deleted while the request was parked
        return call.send(error_response(request, call, groups))
    share = groups.coordinator.share
    now_ms = groups.time(call.now_ms)
    refusals = [_refusal(call, wanted) for wanted in request.topics]
    try:
        check_empty(share.find(request.group_id))
        if None not in refusals:  # as in Kafka, a request without valid topics creates no group
            return call.send(AlterShareGroupOffsetsResponse(responses=list(filter(None, refusals))))
        group, records = share.create(request.group_id, sum(len(wanted.partitions) for wanted in request.topics))
    except ShareGroupError as error:
        return call.send(AlterShareGroupOffsetsResponse(error_code=error.code, error_message=str(error)))
    appended = Appended()
    responses = [
        refusal or _alter(call, groups, group, wanted, records, appended, now_ms)
        for wanted, refusal in zip(request.topics, refusals, strict=True)
    ]
    return commit(
        groups, group, records, appended, call.send(AlterShareGroupOffsetsResponse(responses=responses)), now_ms
    )


def _refusal(call: Call, wanted: WantedTopic) -> Topic | None:
    """Return the result of a forbidden or unknown topic; None if its offsets may be altered.

    As in Kafka, the result of a forbidden topic includes its id.
    """
    name, topic = wanted.topic_name, call.broker.topics.get(wanted.topic_name)
    topic_id = UUID_ZERO if topic is None else topic.topic_id
    if not authorize_topic(call, AclOperation.READ, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = [Partition(one.partition_index, code, REFUSAL_TEXTS[code]) for one in wanted.partitions]
    elif topic is None:
        partitions = [_unknown(one.partition_index) for one in wanted.partitions]
    else:
        return None
    return Topic(name, topic_id, partitions)


def _alter(
    call: Call,
    groups: GroupShard,
    group: ShareGroup,
    wanted: WantedTopic,
    records: list[StateRecord],
    appended: Appended,
    now_ms: int,
) -> Topic:
    name = wanted.topic_name
    topic = call.broker.topics.get(name)
    assert topic is not None, "unknown topics are refused"
    partitions, begun = [], set()
    for one in wanted.partitions:
        if not 0 <= one.partition_index < topic.partitions:
            partitions.append(_unknown(one.partition_index))
            continue
        key = ShareKey(group.group_id, topic.topic_id, one.partition_index)
        call.broker.share.manager.set_start(key, max(UNINITIALIZED, one.start_offset), appended, now_ms)
        begun.add(one.partition_index)
        partitions.append(Partition(one.partition_index))
    if begun:
        records.append(groups.coordinator.share.begin(group, name, topic.topic_id, frozenset(begun)))
    return Topic(name, topic.topic_id, partitions)


def _unknown(index: int) -> Partition:
    return Partition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TEXT)


def error_response(
    request: AlterShareGroupOffsetsRequest, call: Call, code: ErrorCode
) -> AlterShareGroupOffsetsResponse:
    del request, call
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=REFUSAL_TEXTS.get(code))
