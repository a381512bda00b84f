"""The assignor `sticky` of streams groups as a pure function: complete, valid, balanced assignments with few moves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.groups.streams.assignors.by_name import NAMES, assign
from pipeline_broker.state.groups.streams.assignors.members import AssignedMember, AssignmentConfigs
from pipeline_broker.state.groups.streams.assignors.sticky import assign_sticky
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology
from pipeline_broker.state.groups.streams.tasks import Tasks
from tests.drawn import drawn, measured
from tests.state.groups.streams.groups import after, all_tasks, flat, groups, loads, stateful_tasks, topology

NO_STANDBYS = AssignmentConfigs()


def member(process="p", **roles):
    kinds = {
        kind: {part: frozenset(numbers) for part, numbers in roles.get(kind, {}).items()} for kind in Tasks._fields
    }
    return AssignedMember(process, Tasks(**kinds), task_offsets=roles.get("offsets", {}))


def active(assigned):
    return {member_id: sorted(flat(tasks.active)) for member_id, tasks in assigned.items()}


def sizes(assigned):
    return sorted(len(flat(tasks.active)) for tasks in assigned.values())


@given(group=groups())
def test_every_task_is_active_at_one_member(group):
    members, parts, configs = group
    assigned = assign_sticky(members, parts, configs)
    assert assigned.keys() == members.keys()
    assert Counter(task for tasks in assigned.values() for task in flat(tasks.active)) == Counter(all_tasks(parts))


@measured(standbys=0.2)
@given(group=groups())
def test_a_process_has_each_task_once_and_as_many_standbys_exist_as_processes_allow(group):
    members, parts, configs = group
    assigned = assign_sticky(members, parts, configs)
    of_process = Counter()
    for member_id, tasks in assigned.items():
        of_process.update((members[member_id].process_id, task) for task in [*flat(tasks.active), *flat(tasks.standby)])
    assert set(of_process.values()) <= {1}
    processes = {member.process_id for member in members.values()}
    wanted = min(configs.standby_replicas, len(processes) - 1)
    found = Counter(task for tasks in assigned.values() for task in flat(tasks.standby))
    assert found == Counter({task: wanted for task in stateful_tasks(parts) if wanted})
    drawn("standbys", found)


@given(group=groups())
def test_no_member_gets_warm_up_tasks(group):
    assert not any(tasks.warmup for tasks in assign_sticky(*group).values())


@given(group=groups())
def test_a_member_keeps_no_more_than_its_share_of_active_tasks(group):
    members, parts, _ = group
    share = -(-len(all_tasks(parts)) // len(members))
    found = assign_sticky(members, parts, NO_STANDBYS)
    of_process = Counter(member.process_id for member in members.values())
    for member_id, tasks in found.items():
        kept = set(flat(tasks.active)) & set(flat(members[member_id].assigned.active))
        assert len(kept) <= share
    if len(set(of_process.values())) == 1:
        assert max(sizes(found)) <= share


@given(group=groups(), order=st.randoms())
def test_the_order_of_members_does_not_matter(group, order):
    members, parts, configs = group
    items = list(members.items())
    order.shuffle(items)
    assert assign_sticky(dict(items), parts, configs) == assign_sticky(members, parts, configs)


@given(group=groups())
def test_new_processes_of_equal_size_get_equal_loads(group):
    members, parts, _ = group
    members = {member_id: AssignedMember(member_id) for member_id in members}
    found = loads(members, assign_sticky(members, parts, NO_STANDBYS)).values()
    assert max(found) - min(found) <= 1


@measured(several=0.3)
@given(group=groups())
def test_a_second_assignment_of_members_alone_in_their_processes_moves_no_active_task(group):
    members, parts, configs = group
    members = {member_id: given._replace(process_id=member_id) for member_id, given in members.items()}
    first = assign_sticky(members, parts, configs)
    second = assign_sticky(after(members, first), parts, configs)
    assert active(second) == active(first)
    drawn("several", len(members) > 1)


@measured(several=0.3)
@given(group=groups())
def test_repeated_assignments_soon_move_no_task(group):
    members, parts, configs = group
    assigned = [assign_sticky(members, parts, configs)]
    for _ in range(len(members) + 1):
        assigned.append(assign_sticky(after(members, assigned[-1]), parts, configs))
    assert active(assigned[-1]) == active(assigned[-2])
    drawn("several", len(members) > 1)


@given(group=groups())
def test_a_new_member_takes_only_the_tasks_over_the_share_of_others(group):
    members, parts, _ = group
    first = assign_sticky(members, parts, NO_STANDBYS)
    joined = after(members, first) | {"n": AssignedMember("new")}
    second = assign_sticky(joined, parts, NO_STANDBYS)
    taken = set(flat(second["n"].active))
    kept = {
        member_id: set(flat(tasks.active)) & set(flat(second[member_id].active)) for member_id, tasks in first.items()
    }
    share = -(-len(all_tasks(parts)) // len(joined))
    assert len(taken) <= share
    assert all(len(kept[member_id]) >= min(len(flat(tasks.active)), share - 1) for member_id, tasks in first.items())


def test_tasks_of_a_lost_member_go_to_its_standbys():
    parts = topology(4, stateful=[0])
    members = {
        "a": member("a", active={"0": {0, 1}}),
        "b": member("b", standby={"0": {2}}),
        "c": member("c", standby={"0": {3}}),
    }
    found = active(assign_sticky(members, parts, NO_STANDBYS))
    assert found == {"a": [("0", 0), ("0", 1)], "b": [("0", 2)], "c": [("0", 3)]}


def test_offsets_on_disk_attract_a_task():
    parts = topology(2, stateful=[0])
    members = {"a": member("a"), "b": member("b", offsets={"0": {0: 7}})}
    assert active(assign_sticky(members, parts, NO_STANDBYS)) == {"a": [("0", 1)], "b": [("0", 0)]}


def test_the_most_caught_up_state_attracts_a_task():
    parts = topology(3, stateful=[0])
    offsets = {"a": 3, "b": 9, "c": 5}
    members = {name: member(name, offsets={"0": {2: offset}}) for name, offset in offsets.items()}
    assert ("0", 2) in active(assign_sticky(members, parts, NO_STANDBYS))["b"]


def test_a_standby_attracts_a_task_more_than_offsets_on_disk():
    parts = topology(3, stateful=[0])
    members = {"a": member("a", offsets={"0": {2: 9}}), "b": member("b", standby={"0": {2}}), "c": member("c")}
    assert ("0", 2) in active(assign_sticky(members, parts, NO_STANDBYS))["b"]


def test_a_former_owner_becomes_a_standby():
    parts = topology(2, stateful=[0])
    members = {"a": member("a", active={"0": {0, 1}}), "b": member("b")}
    found = assign_sticky(members, parts, AssignmentConfigs(standby_replicas=1))
    assert found["a"] == Tasks({"0": frozenset({0})}, {"0": frozenset({1})}, {})
    assert found["b"] == Tasks({"0": frozenset({1})}, {"0": frozenset({0})}, {})


def test_standbys_stay_at_their_members_up_to_the_share():
    parts = topology(4, stateful=[0])
    members = {
        "a": member("a", active={"0": {0, 1, 2, 3}}),
        "b": member("b", standby={"0": {0, 1, 2, 3}}),
        "c": member("c"),
    }
    found = assign_sticky(members, parts, AssignmentConfigs(standby_replicas=1))
    loads_of_members = {name: len(flat(tasks.active)) + len(flat(tasks.standby)) for name, tasks in found.items()}
    assert sorted(loads_of_members.values()) == [2, 3, 3]
    assert found["b"] == Tasks({"0": frozenset({2})}, {"0": frozenset({0, 1})}, {})


def test_the_least_loaded_of_equal_standbys_gets_a_task():
    parts = topology(2, 1, stateful=[1])
    members = {
        "a": member("a", active={"0": {0, 1}}, standby={"1": {0}}),
        "b": member("b", standby={"1": {0}}),
    }
    assert active(assign_sticky(members, parts, NO_STANDBYS)) == {"a": [("0", 0), ("0", 1)], "b": [("1", 0)]}


def test_the_first_of_equally_loaded_standbys_gets_a_task():
    parts = topology(1, stateful=[0])
    members = {name: member(name, standby={"0": {0}}) for name in "ab"}
    assert active(assign_sticky(members, parts, NO_STANDBYS)) == {"a": [("0", 0)], "b": []}


def test_a_process_with_more_members_gets_more_tasks():
    members = {"a": member("one"), "b": member("two"), "c": member("two")}
    found = loads(members, assign_sticky(members, topology(6), NO_STANDBYS))
    assert found == {"one": 2, "two": 2}


def test_new_members_get_ranges_of_equal_partitions():
    members = {"a": member("a"), "b": member("b")}
    found = active(assign_sticky(members, topology(4, 4), NO_STANDBYS))
    assert {partition for _, partition in found["a"]} == {0, 2}


def test_a_group_without_members_has_no_assignment():
    assert assign_sticky({}, topology(2), NO_STANDBYS) == {}


def test_a_topology_that_is_not_ready_gives_no_tasks():
    assert assign_sticky({"a": member()}, ConfiguredTopology(0, None, (), None), NO_STANDBYS) == {
        "a": Tasks({}, {}, {})
    }


@pytest.mark.parametrize("name", NAMES)
def test_assignors_are_found_by_name(name):
    assert assign(name, {"a": member()}, topology(1), NO_STANDBYS)["a"].active == {"0": {0}}
