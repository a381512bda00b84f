"""The interface that groups of every kind share."""

from __future__ import annotations

import pytest

from pipeline_broker.state.groups.classic.classic_group import ClassicGroup
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.share.share_group import ShareGroup

MANY = 201
"""A group size above MEMBERS_AT_ONCE_MAX."""


@pytest.mark.parametrize("kind", [ConsumerGroup, ShareGroup])
def test_a_join_of_a_large_group_is_long(kind) -> None:
    for size, is_long in ((0, False), (MANY - 1, False), (MANY, True)):
        assert kind("g", members=dict.fromkeys(map(str, range(size)))).is_joining_long is is_long


@pytest.mark.parametrize(
    ("size", "joined", "is_initial", "is_long"),
    [
        (0, 0, False, False),
        (MANY - 1, MANY - 1, False, False),
        (MANY, 0, False, False),
        (MANY, MANY - 2, False, False),
        (MANY, MANY - 1, False, True),
        (MANY, MANY, False, True),
        (MANY, MANY, True, False),
    ],
)
def test_the_last_join_of_a_large_classic_group_is_long(size, joined, is_initial, is_long):
    """It completes the generation. The first rebalance is an exception: it ends with its delay."""
    group = ClassicGroup(
        group_id="g",
        members=dict.fromkeys(map(str, range(size))),
        parked_joins=dict.fromkeys(map(str, range(joined))),
        is_initial=is_initial,
    )
    assert group.is_joining_long is is_long
