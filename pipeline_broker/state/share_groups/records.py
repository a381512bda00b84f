"""Records of `__consumer_offsets` that hold share groups, in Kafka's layouts.

    10 a member    11 a group    12 the assignment's epoch    13 a member's target    14 what a member was told
    15 the partitions whose state the share coordinator keeps

Rules of this file: bytes and values, no decisions; what does not make sense is a CorruptStateRecordError.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_broker.state.group_records import read_record_key, read_record_value, record_key, record_value
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.share_groups.assignor import Assignment
from pipeline_broker.state.share_groups.share_group import ShareGroup, ShareMember
from pipeline_broker.wire.messages.share_group_records import (
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
    "GROUP",
    "INITIALIZED",
    "MEMBER",
    "TARGET_EPOCH",
    "TARGET_MEMBER",
    "TOLD_MEMBER",
    "TYPES",
    "group_record",
    "group_tombstones",
    "initialized_record",
    "member_record",
    "member_tombstones",
    "replay",
    "target_epoch_record",
    "target_record",
    "told_record",
]

MEMBER, GROUP, TARGET_EPOCH, TARGET_MEMBER, TOLD_MEMBER, INITIALIZED = TYPES = range(10, 16)
VERSION = 0
STABLE = 0
"""The one state that Kafka writes of a member that was told its assignment."""


def member_record(group_id: str, member: ShareMember) -> StateRecord:
    """Who a member is and what it subscribes to."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
    )
    key = record_key(MEMBER, ShareGroupMemberMetadataKey(group_id, member.member_id))
    return StateRecord(key, record_value(VERSION, value))


def group_record(group: ShareGroup) -> StateRecord:
    """The group's epoch."""
    value = ShareGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return StateRecord(_group_key(group.group_id), record_value(VERSION, value))


def target_epoch_record(group: ShareGroup) -> StateRecord:
    """The epoch that the target was made for."""
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=group.assignment_epoch, assignment_timestamp=group.assigned_ms
    )
    return StateRecord(_target_key(group.group_id), record_value(VERSION, value))


def target_record(group_id: str, member_id: str, assignment: Assignment) -> StateRecord:
    """What a member shall read."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            ShareGroupTargetAssignmentMemberValue.TopicPartition(topic_id, sorted(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )
    key = record_key(TARGET_MEMBER, ShareGroupTargetAssignmentMemberKey(group_id, member_id))
    return StateRecord(key, record_value(VERSION, value))


def told_record(group_id: str, member: ShareMember) -> StateRecord:
    """What a member was told to read."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=[
            ShareGroupCurrentMemberAssignmentValue.TopicPartitions(topic_id, sorted(partitions))
            for topic_id, partitions in member.assignment.items()
        ],
    )
    key = record_key(TOLD_MEMBER, ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id))
    return StateRecord(key, record_value(VERSION, value))


def initialized_record(group: ShareGroup) -> StateRecord:
    """The partitions whose state is kept."""
    value = ShareGroupStatePartitionMetadataValue(
        initialized_topics=[
            ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo(topic_id, name, sorted(partitions))
            for topic_id, (name, partitions) in group.initialized.items()
        ]
    )
    return StateRecord(_initialized_key(group.group_id), record_value(VERSION, value))


def member_tombstones(group_id: str, member_id: str) -> tuple[StateRecord, ...]:
    """A member is gone."""
    return (
        StateRecord(record_key(TOLD_MEMBER, ShareGroupCurrentMemberAssignmentKey(group_id, member_id)), None),
        StateRecord(record_key(TARGET_MEMBER, ShareGroupTargetAssignmentMemberKey(group_id, member_id)), None),
        StateRecord(record_key(MEMBER, ShareGroupMemberMetadataKey(group_id, member_id)), None),
    )


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> tuple[StateRecord, ...]:
    """A group is gone, with those who are still in it."""
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


def group_of(kind: int, key: bytes) -> tuple[str, str]:
    """The group that a record is about, and the member; empty where it is about the group as a whole."""
    if kind == MEMBER:
        member = read_record_key(ShareGroupMemberMetadataKey, key)
        return member.group_id, member.member_id
    if kind == TARGET_MEMBER:
        target = read_record_key(ShareGroupTargetAssignmentMemberKey, key)
        return target.group_id, target.member_id
    if kind == TOLD_MEMBER:
        told = read_record_key(ShareGroupCurrentMemberAssignmentKey, key)
        return told.group_id, told.member_id
    # the three others have the same layout
    return read_record_key(ShareGroupMetadataKey, key).group_id, ""


def replay(group: ShareGroup, kind: int, member_id: str, value: bytes) -> None:
    """Take a value over into its group; raises CorruptStateRecordError."""
    if kind == GROUP:
        read = read_record_value(ShareGroupMetadataValue, value)
        group.epoch, group.metadata_hash = read.epoch, read.metadata_hash
    elif kind == TARGET_EPOCH:
        target = read_record_value(ShareGroupTargetAssignmentMetadataValue, value)
        group.assignment_epoch, group.assigned_ms = target.assignment_epoch, target.assignment_timestamp
    elif kind == INITIALIZED:
        kept = read_record_value(ShareGroupStatePartitionMetadataValue, value)
        group.initialized = {
            topic.topic_id: (topic.topic_name, frozenset(topic.partitions)) for topic in kept.initialized_topics
        }
    elif kind == TARGET_MEMBER:
        shall = read_record_value(ShareGroupTargetAssignmentMemberValue, value)
        group.target[member_id] = {topic.topic_id: frozenset(topic.partitions) for topic in shall.topic_partitions}
    else:
        _replay_member(group.members.setdefault(member_id, ShareMember(member_id)), kind, value)


def _replay_member(member: ShareMember, kind: int, value: bytes) -> None:
    if kind == MEMBER:
        who = read_record_value(ShareGroupMemberMetadataValue, value)
        member.rack_id, member.client_id, member.client_host = who.rack_id, who.client_id, who.client_host
        member.topics = tuple(who.subscribed_topic_names)
        return
    told = read_record_value(ShareGroupCurrentMemberAssignmentValue, value)
    member.epoch, member.previous_epoch = told.member_epoch, told.previous_member_epoch
    member.assignment = {topic.topic_id: frozenset(topic.partitions) for topic in told.assigned_partitions}
