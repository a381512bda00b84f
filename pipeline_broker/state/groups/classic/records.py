"""Records of classic groups: type 2 of `__consumer_offsets`, in Kafka's layout."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.state.coordinator_records import read_record_key, read_record_value, record_key, record_value
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState, Member
from pipeline_broker.state.groups.classic.messages import MemberProtocol
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.wire.messages.groups.group_metadata_record import GroupMetadataKey, GroupMetadataValue

__all__ = ["group_metadata_record", "group_tombstone", "new_group_record", "read_group"]

TYPE = 2
VALUE_VERSION = 3


def group_metadata_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> StateRecord:
    """Return the record of a group with these assignments; a member without one gets an empty one."""
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
    return StateRecord(_group_key(group.group_id), record_value(VALUE_VERSION, value))


def new_group_record(group: ClassicGroup) -> StateRecord:
    """Return the record of a group that was just created and has no generation yet."""
    value = GroupMetadataValue(current_state_timestamp=group.state_since_ms, protocol=None, leader=None)
    return StateRecord(_group_key(group.group_id), record_value(VALUE_VERSION, value))


def group_tombstone(group_id: str) -> StateRecord:
    return StateRecord(_group_key(group_id), None)


def read_group(key: bytes, value: bytes | None) -> tuple[str, ClassicGroup | None]:
    """Decode a record to the group id and the group, None for a tombstone.

    Raises:
        CorruptStateRecordError: the key or the value is malformed.
    """
    group_id = read_record_key(GroupMetadataKey, key).group
    return group_id, None if value is None else _group(group_id, value)


def _group(group_id: str, value: bytes) -> ClassicGroup:
    read = read_record_value(GroupMetadataValue, value)
    _check_members(read)
    group = ClassicGroup(
        group_id=group_id,
        # Records do not contain the state. Sessions are not running yet; `loaded` starts them.
        state=GroupState.STABLE if read.members else GroupState.EMPTY,
        state_since_ms=read.current_state_timestamp,
        generation_id=read.generation,
        protocol_type=read.protocol_type or None,
        protocol_name=read.protocol,
        leader=read.leader,
    )
    for member in read.members:
        assert read.protocol is not None, "see _check_members"
        timeout_ms = member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout
        group.add(
            Member(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=timeout_ms,
                session_timeout_ms=member.session_timeout,
                protocols=(MemberProtocol(read.protocol, member.subscription),),
                assignment=member.assignment,
            ),
        )
    group.refresh_topics()
    return group


def _check_members(read: GroupMetadataValue) -> None:
    # Reject an impossible group here: later, it would fail the requests of the first clients that join.
    ids = [member.member_id for member in read.members]
    instances = [member.group_instance_id for member in read.members if member.group_instance_id is not None]
    if len(set(ids)) < len(ids) or len(set(instances)) < len(instances):
        raise CorruptStateRecordError("GroupMetadataValue: two members with the same id")
    if ids and read.protocol is None:
        raise CorruptStateRecordError("GroupMetadataValue: members without a protocol")


def _group_key(group_id: str) -> bytes:
    return record_key(TYPE, GroupMetadataKey(group=group_id))
