"""Records of share groups: types 10 to 15 of `__consumer_offsets`, in Kafka's layouts.

    10 member   11 group epoch   12 target assignment epoch   13 target assignment of a member
    14 current assignment of a member   15 partitions with a state in the share coordinator

Invalid records raise a CorruptStateRecordError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pipeline_broker.state.coordinator_records import read_record_key, read_record_value, record_key, record_value
from pipeline_broker.state.groups.share.assignor import Assignment
from pipeline_broker.state.groups.share.share_group import ShareGroup, ShareMember
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.wire.messages.share.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

__all__ = [
    "CURRENT_MEMBER",
    "GROUP",
    "INITIALIZED",
    "MEMBER",
    "TARGET_EPOCH",
    "TARGET_MEMBER",
    "TYPES",
    "ShareGroupRecord",
    "current_record",
    "group_record",
    "group_tombstones",
    "initialized_record",
    "member_record",
    "member_tombstones",
    "read_group_record",
    "replay",
    "target_epoch_record",
    "target_record",
]

MEMBER, GROUP, TARGET_EPOCH, TARGET_MEMBER, CURRENT_MEMBER, INITIALIZED = TYPES = range(10, 16)
VERSION = 0
# Kafka writes no other member state in the current assignment of a share group's member.
STABLE = 0


def member_record(group_id: str, member: ShareMember) -> StateRecord:
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
    )
    key = record_key(MEMBER, ShareGroupMemberMetadataKey(group_id, member.member_id))
    return StateRecord(key, record_value(VERSION, value))


def group_record(group: ShareGroup) -> StateRecord:
    value = ShareGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return StateRecord(_group_key(group.group_id), record_value(VERSION, value))


def target_epoch_record(group: ShareGroup) -> StateRecord:
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=group.assignment_epoch, assignment_timestamp=group.assigned_ms
    )
    return StateRecord(_target_key(group.group_id), record_value(VERSION, value))


def target_record(group_id: str, member_id: str, assignment: Assignment) -> StateRecord:
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            ShareGroupTargetAssignmentMemberValue.TopicPartition(topic_id, sorted(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )
    key = record_key(TARGET_MEMBER, ShareGroupTargetAssignmentMemberKey(group_id, member_id))
    return StateRecord(key, record_value(VERSION, value))


def current_record(group_id: str, member: ShareMember) -> StateRecord:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=[
            ShareGroupCurrentMemberAssignmentValue.TopicPartitions(topic_id, sorted(partitions))
            for topic_id, partitions in member.assignment.items()
        ],
    )
    key = record_key(CURRENT_MEMBER, ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id))
    return StateRecord(key, record_value(VERSION, value))


def initialized_record(group: ShareGroup) -> StateRecord:
    value = ShareGroupStatePartitionMetadataValue(
        initialized_topics=[
            ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo(topic_id, name, sorted(partitions))
            for topic_id, (name, partitions) in group.initialized.items()
        ]
    )
    return StateRecord(_initialized_key(group.group_id), record_value(VERSION, value))


def member_tombstones(group_id: str, member_id: str) -> tuple[StateRecord, ...]:
    return (
        StateRecord(record_key(CURRENT_MEMBER, ShareGroupCurrentMemberAssignmentKey(group_id, member_id)), None),
        StateRecord(record_key(TARGET_MEMBER, ShareGroupTargetAssignmentMemberKey(group_id, member_id)), None),
        StateRecord(record_key(MEMBER, ShareGroupMemberMetadataKey(group_id, member_id)), None),
    )


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> tuple[StateRecord, ...]:
    members = tuple(record for member_id in member_ids for record in member_tombstones(group_id, member_id))
    keys = (_initialized_key(group_id), _target_key(group_id), _group_key(group_id))
    return members + tuple(StateRecord(key, None) for key in keys)


def _group_key(group_id: str) -> bytes:
    return record_key(GROUP, ShareGroupMetadataKey(group_id))


def _target_key(group_id: str) -> bytes:
    return record_key(TARGET_EPOCH, ShareGroupTargetAssignmentMetadataKey(group_id))


def _initialized_key(group_id: str) -> bytes:
    return record_key(INITIALIZED, ShareGroupStatePartitionMetadataKey(group_id))


# Replay


class ShareGroupRecord(NamedTuple):
    """A decoded record.

    Attributes:
        member_id: empty for records of the group itself.
        value: the message of its type; None for a tombstone.
    """

    kind: int
    group_id: str
    member_id: str
    value: Any


def read_group_record(kind: int, key: bytes, value: bytes | None) -> ShareGroupRecord:
    """Decode a record of a type in TYPES.

    Raises:
        CorruptStateRecordError: the key or the value is malformed.
    """
    held = None if value is None else read_record_value(_VALUES[kind], value)
    return ShareGroupRecord(kind, *_group_of(kind, key), held)


_VALUES: Mapping[int, type[Any]] = {
    MEMBER: ShareGroupMemberMetadataValue,
    GROUP: ShareGroupMetadataValue,
    TARGET_EPOCH: ShareGroupTargetAssignmentMetadataValue,
    TARGET_MEMBER: ShareGroupTargetAssignmentMemberValue,
    CURRENT_MEMBER: ShareGroupCurrentMemberAssignmentValue,
    INITIALIZED: ShareGroupStatePartitionMetadataValue,
}


def _group_of(kind: int, key: bytes) -> tuple[str, str]:
    if kind == MEMBER:
        member = read_record_key(ShareGroupMemberMetadataKey, key)
        return member.group_id, member.member_id
    if kind == TARGET_MEMBER:
        target = read_record_key(ShareGroupTargetAssignmentMemberKey, key)
        return target.group_id, target.member_id
    if kind == CURRENT_MEMBER:
        current = read_record_key(ShareGroupCurrentMemberAssignmentKey, key)
        return current.group_id, current.member_id
    # The keys of the three other types have the same layout.
    return read_record_key(ShareGroupMetadataKey, key).group_id, ""


def replay(group: ShareGroup, record: ShareGroupRecord) -> None:
    kind, member_id, value = record.kind, record.member_id, record.value
    if kind == GROUP:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif kind == TARGET_EPOCH:
        group.assignment_epoch, group.assigned_ms = value.assignment_epoch, value.assignment_timestamp
    elif kind == INITIALIZED:
        group.restore(
            {topic.topic_id: (topic.topic_name, frozenset(topic.partitions)) for topic in value.initialized_topics}
        )
    elif kind == TARGET_MEMBER:
        group.target[member_id] = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}
    else:
        _replay_member(group.members.setdefault(member_id, ShareMember(member_id)), kind, value)


def _replay_member(member: ShareMember, kind: int, value: Any) -> None:
    if kind == MEMBER:
        member.rack_id, member.client_id, member.client_host = value.rack_id, value.client_id, value.client_host
        member.topics = tuple(value.subscribed_topic_names)
        return
    member.epoch, member.previous_epoch = value.member_epoch, value.previous_member_epoch
    member.assignment = {topic.topic_id: frozenset(topic.partitions) for topic in value.assigned_partitions}
