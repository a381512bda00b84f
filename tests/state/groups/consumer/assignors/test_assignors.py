"""The assignors as pure functions: complete, valid, balanced assignments with few moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.groups.consumer.assignors.range import assign_range
from pipeline_broker.state.groups.consumer.assignors.subscriptions import AssignorMember
from pipeline_broker.state.groups.consumer.assignors.uniform import assign_uniform

TOPIC_IDS = [bytes([number]) * 16 for number in range(4)]
BOTH = pytest.mark.parametrize("assign", [assign_uniform, assign_range])


@st.composite
def groups(draw, *, alike: bool = False):
    counts = {topic_id: draw(st.integers(1, 7)) for topic_id in TOPIC_IDS}
    same = draw(st.frozensets(st.sampled_from(TOPIC_IDS), min_size=1))
    members = []
    for number in range(draw(st.integers(1, 6))):
        topic_ids = same if alike else draw(st.frozensets(st.sampled_from(TOPIC_IDS)))
        instance_id = draw(st.sampled_from([None, f"i{9 - number}"]))
        members.append(AssignorMember(f"m{number}", instance_id, topic_ids, {}))
    return members, counts


@st.composite
def groups_that_own(draw, *, alike: bool = False):
    """Groups with arbitrary previous assignments, including unsubscribed and deleted topics."""
    members, counts = draw(groups(alike=alike))
    owners = st.sampled_from([None, *range(len(members))])
    targets: list[dict[bytes, set[int]]] = [{} for _ in members]
    for topic_id, count in counts.items():
        for partition, owner in enumerate(draw(st.lists(owners, max_size=count + 1))):
            if owner is not None:
                targets[owner].setdefault(topic_id, set()).add(partition)
    frozen = [{topic_id: frozenset(numbers) for topic_id, numbers in target.items()} for target in targets]
    return [member._replace(target=target) for member, target in zip(members, frozen, strict=True)], counts


def load(partitions):
    return sum(map(len, partitions.values()))


def flattened(assigned):
    return [
        (topic_id, partition)
        for partitions in assigned.values()
        for topic_id, numbers in partitions.items()
        for partition in numbers
    ]


def after(members, assigned):
    return [member._replace(target=assigned.get(member.member_id, {})) for member in members]


@BOTH
@given(group=groups_that_own())
def test_every_subscribed_partition_goes_to_one_subscriber(assign, group):
    members, counts = group
    assigned = assign(members, counts)
    subscribed = set().union(*(member.topic_ids for member in members))
    wanted = {(topic_id, partition) for topic_id in subscribed for partition in range(counts[topic_id])}
    found = flattened(assigned)
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert assigned.keys() == {member.member_id for member in members}
    assert all(assigned[member.member_id].keys() <= member.topic_ids for member in members)
    assert all(numbers for partitions in assigned.values() for numbers in partitions.values()), "no topic without any"


@BOTH
@given(group=groups(), order=st.randoms())
def test_the_order_of_members_does_not_matter(assign, group, order):
    members, counts = group
    shuffled = members[:]
    order.shuffle(shuffled)
    assert assign(members, counts) == assign(shuffled, counts)


@given(group=groups(alike=True))
def test_uniform_members_with_equal_subscriptions_differ_by_one_at_most(group):
    loads = [load(partitions) for partitions in assign_uniform(*group).values()]
    assert max(loads) - min(loads) <= 1


@given(group=groups_that_own())
def test_uniform_no_subscriber_has_two_partitions_less_than_an_owner(group):
    """Holds for any previous assignment."""
    members, counts = group
    assigned = assign_uniform(members, counts)
    loads = {member_id: load(partitions) for member_id, partitions in assigned.items()}
    for member_id, partitions in assigned.items():
        for topic_id in partitions:
            least = min(loads[member.member_id] for member in members if topic_id in member.topic_ids)
            assert loads[member_id] <= least + 1


@given(group=groups_that_own(alike=True))
def test_uniform_members_with_equal_subscriptions_keep_their_fair_share(group):
    members, counts = group
    assigned = assign_uniform(members, counts)
    there = {topic_id: frozenset(range(counts[topic_id])) for topic_id in members[0].topic_ids}
    owned = [sum(len(it.target.get(topic_id, frozenset()) & there[topic_id]) for topic_id in there) for it in members]
    kept = sum(
        len(numbers & member.target.get(topic_id, frozenset()))
        for member in members
        for topic_id, numbers in assigned[member.member_id].items()
    )
    share, one_more = divmod(sum(map(len, there.values())), len(members))
    assert kept == sum(min(count, share) for count in owned) + min(one_more, sum(count > share for count in owned))


@BOTH
def test_no_members_get_no_assignment(assign):
    assert assign([], {TOPIC_IDS[0]: 3}) == {}


def test_uniform_members_with_equal_subscriptions_give_up_only_the_excess():
    """They get no partition of another topic in exchange."""
    first, second = TOPIC_IDS[:2]
    both, four = frozenset({first, second}), frozenset(range(4))
    members = [
        AssignorMember("a", None, both, {first: four}),
        AssignorMember("b", None, both, {second: four}),
        AssignorMember("c", None, both, {}),
    ]
    assert assign_uniform(members, {first: 4, second: 4}) == {
        "a": {first: frozenset({0, 1, 2})},
        "b": {second: frozenset({0, 1, 2})},
        "c": {first: frozenset({3}), second: frozenset({3})},
    }


@pytest.mark.parametrize(
    ("counts", "members", "expected"),
    [
        # equal subscriptions: excess is taken from the first topics, and the first members by name keep one more
        ([2, 2], [("01", {0: {0}, 1: {0, 2}}), ("1", {})], [{0: {0, 1}}, {1: {0, 1}}]),
        ([1, 3], [("01", {0: {0}, 1: {1, 2}}), ("01", {})], [{1: {1, 2}}, {0: {0}, 1: {0}}]),
        ([1, 1, 1], [("012", {0: {0}, 1: {0}, 2: {0}}), ("012", {})], [{1: {0}, 2: {0}}, {0: {0}}]),
        (
            [1, 1, 2],
            [("012", {0: {0}, 2: {1}}), ("012", {}), ("012", {1: {0}, 2: {0}})],
            [{0: {0}, 2: {1}}, {1: {0}}, {2: {0}}],
        ),
        ([4], [("0", {0: {0, 1, 2}}), ("0", {}), ("0", {})], [{0: {0, 1}}, {0: {2}}, {0: {3}}]),
        ([3], [("0", {0: {0, 1}}), ("0", {}), ("0", {})], [{0: {0}}, {0: {1}}, {0: {2}}]),
        ([2], [("0", {}), ("0", {0: {0, 1}}), ("", {}), ("0", {})], [{0: {1}}, {0: {0}}, {}, {}]),
        # unsubscribed and deleted partitions do not count
        ([1, 2], [("1", {0: {0}, 1: {0}}), ("1", {}), ("1", {1: {1}})], [{1: {0}}, {}, {1: {1}}]),
        ([3], [("", {0: {0}}), ("0", {}), ("0", {0: {1, 2}})], [{}, {0: {0}}, {0: {1, 2}}]),
        ([3], [("0", {0: {3}}), ("0", {0: {1}})], [{0: {0, 2}}, {0: {1}}]),
        ([1, 3], [("0", {1: {0, 2}}), ("01", {0: {0}, 1: {1}})], [{0: {0}}, {1: {0, 1, 2}}]),
        # alone
        ([1], [("0", {})], [{0: {0}}]),
        ([1], [("0", {}), ("0", {})], [{0: {0}}, {}]),
    ],
)
def test_uniform_example(counts, members, expected):
    """The arguments give, by member name, the subscribed topics, the previous and the new assignment."""
    group = [
        AssignorMember(
            f"m{number}",
            None,
            frozenset(TOPIC_IDS[int(topic)] for topic in topics),
            {TOPIC_IDS[topic]: frozenset(partitions) for topic, partitions in target.items()},
        )
        for number, (topics, target) in enumerate(members)
    ]
    assigned = assign_uniform(group, dict(zip(TOPIC_IDS, counts, strict=False)))
    assert [
        {TOPIC_IDS.index(topic_id): set(partitions) for topic_id, partitions in assigned[member.member_id].items()}
        for member in group
    ] == expected


def test_uniform_the_only_owner_gives_up_no_more_than_balance_needs():
    """A member with another subscription prevents the fair share of step 1."""
    first, second = TOPIC_IDS[:2]
    for count in range(2, 9):
        members = [
            AssignorMember("a", None, frozenset({first}), {first: frozenset(range(count))}),
            AssignorMember("b", None, frozenset({first}), {}),
            AssignorMember("c", None, frozenset({second}), {}),
        ]
        kept = (count + 1) // 2
        assert assign_uniform(members, {first: count, second: 1}) == {
            "a": {first: frozenset(range(kept))},
            "b": {first: frozenset(range(kept, count))},
            "c": {second: frozenset({0})},
        }


def test_uniform_a_move_in_one_topic_rebalances_another():
    """b gives half of the second topic to c. Then b has fewer partitions than a, and gets some of the first topic."""
    first, second = TOPIC_IDS[:2]
    members = [
        AssignorMember("a", None, frozenset({first}), {first: frozenset({0, 1, 2})}),
        AssignorMember("b", None, frozenset({first, second}), {second: frozenset({0, 1})}),
        AssignorMember("c", None, frozenset({second}), {}),
    ]
    assigned = assign_uniform(members, {first: 3, second: 2})
    assert {member_id: load(partitions) for member_id, partitions in assigned.items()} == {"a": 2, "b": 2, "c": 1}


def test_uniform_partitions_with_one_subscriber_count_as_load():
    first, second = TOPIC_IDS[:2]
    members = [
        AssignorMember("a", None, frozenset({first, second}), {}),
        AssignorMember("b", None, frozenset({second}), {}),
    ]
    assigned = assign_uniform(members, {first: 3, second: 3})
    assert assigned == {"a": {first: frozenset({0, 1, 2})}, "b": {second: frozenset({0, 1, 2})}}


@given(group=groups())
def test_uniform_nothing_moves_when_nothing_changed(group):
    members, counts = group
    assigned = assign_uniform(members, counts)
    assert assign_uniform(after(members, assigned), counts) == assigned


@given(group=groups(alike=True), count=st.integers(1, 3))
def test_uniform_remaining_members_give_up_only_partitions_of_new_members(group, count):
    members, counts = group
    before = assign_uniform(members, counts)
    newcomers = [AssignorMember(f"n{number}", None, members[0].topic_ids, {}) for number in range(count)]
    assigned = assign_uniform([*after(members, before), *newcomers], counts)
    for member in members:
        for topic_id, numbers in assigned[member.member_id].items():
            assert numbers <= before[member.member_id].get(topic_id, frozenset()), "moved between those who stay"


def test_range_divides_topics_of_equal_size_equally():
    first, second = TOPIC_IDS[:2]
    members = [AssignorMember(f"m{number}", None, frozenset({first, second}), {}) for number in range(3)]
    assigned = assign_range(members, {first: 7, second: 7})
    assert [sorted(assigned[f"m{number}"][first]) for number in range(3)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert all(partitions[first] == partitions[second] for partitions in assigned.values())


@given(group=groups())
def test_range_orders_static_members_by_instance_id_then_others_by_id(group):
    members, counts = group
    assigned = assign_range(members, counts)
    static = sorted((each for each in members if each.instance_id is not None), key=lambda each: each.instance_id)
    others = sorted((each for each in members if each.instance_id is None), key=lambda each: each.member_id)
    for topic_id, count in counts.items():
        takers = [each.member_id for each in static + others if topic_id in each.topic_ids]
        runs = [sorted(assigned[member_id].get(topic_id, ())) for member_id in takers]
        assert not takers or [each for run in runs for each in run] == list(range(count))
        assert [len(run) for run in runs] == sorted((len(run) for run in runs), reverse=True)
        assert not takers or len(runs[0]) - len(runs[-1]) <= 1


def test_range_a_restarted_static_member_gets_its_old_range():
    (topic_id,) = TOPIC_IDS[:1]
    static = AssignorMember("z", "i", frozenset({topic_id}), {})
    members = [AssignorMember("a", None, frozenset({topic_id}), {}), static]
    assert assign_range(members, {topic_id: 2})["z"] == {topic_id: frozenset({0})}
    members[1] = static._replace(member_id="b")
    assert assign_range(members, {topic_id: 2})["b"] == {topic_id: frozenset({0})}


@BOTH
def test_ten_thousand_members_take_bounded_time(assign):
    """Faults 75: neither is quadratic in the members; measured in tenths of a second, the bound is generous."""
    import time

    members = [AssignorMember(f"m{number:05}", None, frozenset(TOPIC_IDS[:1]), {}) for number in range(10_000)]
    began = time.monotonic()
    assigned = assign(members, {TOPIC_IDS[0]: 12_000})
    assert time.monotonic() - began < 5
    assert len(flattened(assigned)) == 12_000
