"""Records of `__consumer_offsets`, with Kafka's own layouts.

    key   = int16 type, fields        1: group, topic, partition of a committed offset    2: group
    value = int16 version, fields     or null: the offset or the group is gone

Other types belong to other kinds of groups, or to brokers of another age: they are read past.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeVar

import attrs

from pipeline_broker.state.classic_groups.classic_group import ClassicGroup, GroupState, Member
from pipeline_broker.state.classic_groups.messages import MemberProtocol
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.wire.codec import DecodeError, decode, encode, versions_of
from pipeline_broker.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue
from pipeline_broker.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue

__all__ = [
    "NO_TOPIC_ID",
    "CommittedOffset",
    "GroupKey",
    "OffsetKey",
    "group_from_value",
    "group_metadata_record",
    "group_tombstone",
    "new_group_record",
    "offset_from_value",
    "offset_record",
    "offset_tombstone",
    "partition_for",
    "read_key",
]

NO_TOPIC_ID = bytes(16)
_TYPE = struct.Struct(">h")
_OFFSET_TYPES = frozenset({0, 1})  # type 0 has the same key
_GROUP_TYPE = 2
_GROUP_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_EXPIRING = 1  # the only one that says when the offset expires
_OFFSET_VALUE_VERSION_TOPIC_ID = 4


Value = TypeVar("Value", GroupMetadataValue, OffsetCommitValue)


@attrs.frozen
class CommittedOffset:
    """Where a group is in one partition.

    Attributes:
        expire_timestamp_ms: set by clients of old that bring their own retention; -1 otherwise.
        topic_id: of the topic that was meant; zeros when the client did not know.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: bytes = NO_TOPIC_ID


@attrs.frozen
class OffsetKey:
    """What an offset record is about."""

    group_id: str
    topic: str
    partition: int


@attrs.frozen
class GroupKey:
    """What a group record is about."""

    group_id: str


def partition_for(group_id: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that holds a group: Java's string hash, as Kafka places it."""
    units = group_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    # Java's abs(int) of the smallest int is itself; Kafka's own takes 0 for it
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def read_key(key: bytes) -> OffsetKey | GroupKey | None:
    """Tell what a record is about; None for a type that classic groups do not have."""
    if len(key) < _TYPE.size:
        raise CorruptStateRecordError("the key is too short for its type")
    (kind,) = _TYPE.unpack_from(key)
    try:
        if kind in _OFFSET_TYPES:
            offset_key, _ = decode(OffsetCommitKey, 0, key, _TYPE.size)
            return OffsetKey(offset_key.group, offset_key.topic, offset_key.partition)
        if kind == _GROUP_TYPE:
            group_key, _ = decode(GroupMetadataKey, 0, key, _TYPE.size)
            return GroupKey(group_key.group)
    except DecodeError as error:
        raise CorruptStateRecordError(f"key of type {kind}: {error}") from error
    return None


def offset_record(key: OffsetKey, committed: CommittedOffset) -> StateRecord:
    """The record of a committed offset."""
    version = _OFFSET_VALUE_VERSION
    if committed.expire_timestamp_ms >= 0:
        version = _OFFSET_VALUE_VERSION_EXPIRING
    elif committed.topic_id != NO_TOPIC_ID:
        version = _OFFSET_VALUE_VERSION_TOPIC_ID
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return StateRecord(_offset_key(key), _write(version, value))


def offset_tombstone(key: OffsetKey) -> StateRecord:
    """The record that says that an offset is gone."""
    return StateRecord(_offset_key(key), None)


def offset_from_value(value: bytes) -> CommittedOffset:
    """Read the value of an offset record."""
    read = _read(OffsetCommitValue, value)
    return CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
        read.topic_id,
    )


def group_metadata_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> StateRecord:
    """The record of a group as it is, with these assignments; a member without one has an empty one."""
    protocol = group.protocol_name
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
            if protocol is not None
        ],
    )
    return StateRecord(_group_key(group.group_id), _write(_GROUP_VALUE_VERSION, value))


def new_group_record(group: ClassicGroup) -> StateRecord:
    """The record of a group that was just created: nobody has completed a join in it yet."""
    value = GroupMetadataValue(current_state_timestamp=group.state_since_ms, protocol=None, leader=None)
    return StateRecord(_group_key(group.group_id), _write(_GROUP_VALUE_VERSION, value))


def group_tombstone(group_id: str) -> StateRecord:
    """The record that says that a group is gone."""
    return StateRecord(_group_key(group_id), None)


def group_from_value(group_id: str, value: bytes) -> ClassicGroup:
    """Read the value of a group record: Stable if it has members, Empty otherwise. Sessions are not running."""
    read = _read(GroupMetadataValue, value)
    group = ClassicGroup(
        group_id=group_id,
        state=GroupState.STABLE if read.members else GroupState.EMPTY,
        state_since_ms=read.current_state_timestamp,
        generation_id=read.generation,
        protocol_type=read.protocol_type or None,
        protocol_name=read.protocol,
        leader=read.leader,
    )
    for member in read.members:
        timeout_ms = member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout
        group.add(
            Member(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=timeout_ms,
                session_timeout_ms=member.session_timeout,
                protocols=(MemberProtocol(read.protocol or "", member.subscription),),
                assignment=member.assignment,
            ),
        )
    group.refresh_topics()
    return group


def _offset_key(key: OffsetKey) -> bytes:
    message = OffsetCommitKey(group=key.group_id, topic=key.topic, partition=key.partition)
    return b"".join([_TYPE.pack(1), *encode(message, 0)])


def _group_key(group_id: str) -> bytes:
    return b"".join([_TYPE.pack(_GROUP_TYPE), *encode(GroupMetadataKey(group=group_id), 0)])


def _write(version: int, value: GroupMetadataValue | OffsetCommitValue) -> bytes:
    return b"".join([_TYPE.pack(version), *encode(value, version)])


def _read(message: type[Value], value: bytes) -> Value:
    if len(value) < _TYPE.size:
        raise CorruptStateRecordError("the value is too short for its version")
    (version,) = _TYPE.unpack_from(value)
    if version not in versions_of(message):
        raise CorruptStateRecordError(f"{message.__name__} has no version {version}")
    try:
        return decode(message, version, value, _TYPE.size)[0]
    except DecodeError as error:
        raise CorruptStateRecordError(f"{message.__name__}: {error}") from error
