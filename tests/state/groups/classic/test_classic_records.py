"""Records of classic groups: round trips, and impossible groups."""

from __future__ import annotations

import pytest

from pipeline_broker.state.coordinator_records import record_key, record_value
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.groups.classic.records import TYPE, VALUE_VERSION, group_metadata_record, read_group
from pipeline_broker.wire.messages.groups.group_metadata_record import GroupMetadataKey, GroupMetadataValue
from tests.state.groups.classic.test_classic_group import group_of, member
from tests.state.groups.classic.test_subscription import subscription


def read_back(group: ClassicGroup, **assignments: bytes) -> ClassicGroup | None:
    record = group_metadata_record(group, assignments)
    group_id, read = read_group(record.key, record.value)
    assert group_id == "g"
    return read


@pytest.mark.parametrize(("timeout_ms", "read_ms"), [(-1, 5), (0, 0), (1, 1), (9, 9)])
def test_a_record_without_a_rebalance_timeout_uses_the_session_timeout(timeout_ms: int, read_ms: int) -> None:
    group = group_of(member("a", timeout_ms=timeout_ms))
    group.protocol_name = "range"
    read = read_back(group).members["a"]
    assert (read.rebalance_timeout_ms, read.session_timeout_ms) == (read_ms, 5)


def test_a_group_is_read_with_its_assignments_and_topics() -> None:
    group = group_of(member("a", "i", metadata=subscription(["t", "u"])), member("b", metadata=subscription(["v"])))
    group.generation_id, group.protocol_name, group.state_since_ms = 3, "range", 17
    read = read_back(group, a=b"A")
    assert (read.state, read.generation_id, read.leader, read.state_since_ms) == (GroupState.STABLE, 3, "a", 17)
    assert (read.protocol_type, read.protocol_name, read.static_members) == ("consumer", "range", {"i": "a"})
    assert {each.member_id: each.assignment for each in read.members.values()} == {"a": b"A", "b": b""}
    assert [each.metadata("range") for each in read.members.values()] == [subscription(["t", "u"]), subscription(["v"])]
    assert read.topics == {"t", "u", "v"}


@pytest.mark.parametrize("protocol_type", [None, "consumer", "connect"])
def test_a_group_without_members_is_read_as_empty_with_its_protocol_type(protocol_type: str | None) -> None:
    read = read_back(ClassicGroup(group_id="g", protocol_type=protocol_type))
    assert (read.state, read.protocol_type, read.protocol_name) == (GroupState.EMPTY, protocol_type, None)


@pytest.mark.parametrize(
    ("protocol", "members", "reason"),
    [
        ("range", [("a", None), ("b", None)], None),
        ("range", [("a", "i"), ("b", "j")], None),
        (None, [], None),
        ("range", [("a", None), ("a", None)], "two members with the same id"),
        ("range", [("a", "i"), ("a", "j")], "two members with the same id"),
        ("range", [("a", "i"), ("b", "i")], "two members with the same id"),
        (None, [("a", None)], "members without a protocol"),
    ],
)
def test_records_of_impossible_groups_are_corrupt(protocol, members, reason) -> None:
    entries = [GroupMetadataValue.MemberMetadata(member_id=name, group_instance_id=it) for name, it in members]
    value = GroupMetadataValue(protocol=protocol, leader=None, current_state_timestamp=0, members=entries)
    record = record_key(TYPE, GroupMetadataKey(group="g")), record_value(VALUE_VERSION, value)
    if reason is None:
        assert len(read_group(*record)[1].members) == len(members)
    else:
        with pytest.raises(CorruptStateRecordError, match=reason):
            read_group(*record)
