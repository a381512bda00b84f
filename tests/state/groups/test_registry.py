"""The group registry: replacement by records of another kind, and the durable view."""

from __future__ import annotations

import pytest

from pipeline_broker.state.errors import MisplacedRecordError
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.registry import GroupRegistry, check_replaceable
from tests.state.groups.classic.test_classic_group import member
from tests.state.groups.test_from_outside import Outsider
from tests.state.replaying import replay_group

KINDS = pytest.mark.parametrize("kind", list(GroupType))


def classic(*members: str, protocol_type: str | None = None) -> ClassicGroup:
    group = ClassicGroup(
        group_id="g", state=GroupState.STABLE if members else GroupState.EMPTY, protocol_type=protocol_type
    )
    for name in members:
        group.add(member(name))
    return group


@KINDS
def test_a_group_with_only_offsets_may_become_any_kind(kind: GroupType) -> None:
    check_replaceable(None, kind)
    check_replaceable(classic(), kind)


@KINDS
@pytest.mark.parametrize(
    "group",
    [classic(protocol_type="consumer"), classic("a", protocol_type="consumer"), classic("a"), ConsumerGroup("g")],
    ids=["had members", "has members", "has members of no type", "consumers"],
)
def test_any_other_group_must_have_been_deleted_first(group: ClassicGroup | ConsumerGroup, kind: GroupType) -> None:
    with pytest.raises(MisplacedRecordError, match=f"the record is of a {kind.value} group, but group 'g' is a "):
        check_replaceable(group, kind)


@pytest.mark.parametrize("there", ["classic", "consumer", "share"])
@pytest.mark.parametrize("read", ["classic", "consumer", "share"])
def test_a_record_of_another_kind_of_an_existing_group_is_misplaced(there: str, read: str) -> None:
    driver, records = Outsider.of(there), Outsider.of(read).journal
    group = driver.coordinator.registry.get("g")
    if there == read:
        replay_group(driver.coordinator, records[0])
        return
    with pytest.raises(MisplacedRecordError):
        replay_group(driver.coordinator, records[0])
    assert driver.coordinator.registry.get("g") is group


def test_a_registered_group_counts_once() -> None:
    registry, group, other = GroupRegistry(), classic("a"), classic()
    registry.put(other)
    empty_bytes = registry.memory.bytes_held
    registry.put(group)
    registry.put(group)
    assert registry.memory.bytes_held == empty_bytes + group.memory.count > empty_bytes
    registry.remove(other)
    assert registry.get("g") is group, "another one has its id by now"
    registry.remove(group)
    assert (registry.get("g"), registry.memory.bytes_held) == (None, 0)
    group.memory.add(100)
    assert registry.memory.bytes_held == 0


def test_hiding_a_replaced_group_keeps_its_successor() -> None:
    registry, group, other = GroupRegistry(), classic(), classic()
    registry.show(group)
    registry.show(other)
    registry.hide(group)
    assert (registry.shown("g"), list(registry.all_shown())) == (other, [other])
    registry.hide(other)
    assert registry.shown("g") is None
