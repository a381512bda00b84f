"""The assignor `simple` of share groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.groups.share.assignor import assign

A, B = b"a" * 16, b"b" * 16


@given(
    st.dictionaries(st.text("xyz", min_size=1, max_size=3), st.sets(st.sampled_from([A, B]), min_size=1), max_size=12),
    st.integers(1, 9),
    st.integers(1, 9),
    st.data(),
)
def test_the_simple_assignor_is_fair(subscriptions, a_count, b_count, data):
    """Each partition has a reader, each member reads, and only subscribed topics. A balanced assignment stays."""
    partitions = {A: range(a_count), B: range(b_count)}
    subscribers = {topic: [name for name, topics in subscriptions.items() if topic in topics] for topic in (A, B)}
    current = {
        name: {A: frozenset(data.draw(st.sets(st.integers(0, 9), max_size=4)))} for name in list(subscriptions)[:4]
    }
    target = assign(subscribers, partitions, current)
    for name, topics in subscriptions.items():
        assert target[name].keys() == topics
    for topic, members in subscribers.items():
        readers = [sum(number in target[name][topic] for name in members) for number in partitions[topic]]
        loads = [len(target[name][topic]) for name in members]
        assert not members or min(readers) >= 1
        assert not members or max(readers) - min(readers) <= 1
        assert not members or max(loads) - min(loads) <= 1
    assert assign(subscribers, partitions, target) == target, "a fair assignment stays"


@pytest.mark.parametrize(
    ("members", "partitions", "current", "expected"),
    [
        ("", 1, {}, {}),
        ("v", 0, {"v": {0}}, {}),
        # partitions >= members: members keep their first partitions, and some of them one more
        ("vw", 3, {"v": {0, 1}, "w": {0, 1}}, {"v": {0, 1}, "w": {2}}),
        ("vw", 3, {"w": {1}}, {"v": {0, 2}, "w": {1}}),
        ("vw", 2, {"v": {1}, "w": {1, 3}}, {"v": {1}, "w": {0}}),
        ("vwx", 4, {"v": {0, 1}, "w": {2, 3}}, {"v": {0, 1}, "w": {2}, "x": {3}}),
        ("vwx", 5, {"v": {0, 1, 2}}, {"v": {0, 1}, "w": {2, 4}, "x": {3}}),
        ("vw", 4, {}, {"v": {0, 2}, "w": {1, 3}}),
        # more members than partitions: each member has one, and readers are balanced
        ("vwx", 2, {"v": {0, 1, 3}}, {"v": {0}, "w": {1}, "x": {0}}),
        ("vwx", 2, {"v": {1}, "w": {1, 3}}, {"v": {1}, "w": {1}, "x": {0}}),
        ("vwxy", 2, {}, {"v": {0}, "w": {1}, "x": {0}, "y": {1}}),
        ("vwxy", 3, {"v": {2}, "w": {0}, "x": {2}, "y": {0}}, {"v": {2}, "w": {0}, "x": {2}, "y": {1}}),
    ],
)
def test_the_simple_assignor_example(members, partitions, current, expected):
    """The arguments give, for one topic, the current and the new partitions of each member."""
    had = {name: {A: frozenset(numbers)} for name, numbers in current.items()}
    target = assign({A: list(members)}, {A: range(partitions)}, had)
    assert {name: set(topics[A]) for name, topics in target.items()} == expected


def test_load_is_balanced_over_topics():
    target = assign({topic: ["x", "y"] for topic in (A, B)}, dict.fromkeys((A, B), range(3)), {})
    assert {name: sum(map(len, topics.values())) for name, topics in target.items()} == {"x": 3, "y": 3}
