"""The assignor `simple` of share groups, a pure function.

All partitions of a topic have the same number of members, give or take one, and at least one. If a topic has more
members than partitions, members share partitions, so that none is idle. A member keeps its partitions while that is
balanced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heapify, heapreplace
from typing import TypeAlias

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "assign"]

Assignment: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""
Assignor: TypeAlias = Callable[
    [Mapping[bytes, Collection[str]], Mapping[bytes, Collection[int]], Mapping[str, Assignment]],
    dict[str, dict[bytes, frozenset[int]]],
]
"""A function with the signature of `assign`."""


def assign(
    subscribers: Mapping[bytes, Collection[str]],
    partitions: Mapping[bytes, Collection[int]],
    current: Mapping[str, Assignment],
) -> dict[str, dict[bytes, frozenset[int]]]:
    """Return the partitions that each member should read, by member id and topic id.

    Members without partitions are left out.

    Args:
        subscribers: member ids by topic id.
        partitions: readable partitions by topic id.
        current: the current assignment of each member.
    """
    target: dict[str, dict[bytes, set[int]]] = {}
    load: dict[str, int] = {member: 0 for members in subscribers.values() for member in members}
    for topic_id in sorted(subscribers):
        members, wanted = sorted(subscribers[topic_id]), sorted(partitions.get(topic_id, ()))
        if not members or not wanted:
            continue
        for member, given in _share_out(topic_id, members, wanted, current, load).items():
            target.setdefault(member, {})[topic_id] = given
            load[member] += len(given)
    return {
        member: {topic_id: frozenset(given) for topic_id, given in topics.items()} for member, topics in target.items()
    }


def _share_out(
    topic_id: bytes, members: list[str], wanted: list[int], current: Mapping[str, Assignment], load: Mapping[str, int]
) -> dict[str, set[int]]:
    # Fewer members than partitions: `share` partitions for each member, and `one_more` members get another one.
    # Otherwise one partition for each member, `readers_min` readers for each, and another one for `crowded` of them.
    if len(members) < len(wanted):
        (share, one_more), (readers_min, crowded) = divmod(len(wanted), len(members)), (1, 0)
    else:
        (share, one_more), (readers_min, crowded) = (1, 0), divmod(len(members), len(wanted))
    readers: dict[int, set[str]] = {partition: set() for partition in wanted}
    given: dict[str, set[int]] = {}
    # Members keep a balanced part of their partitions. A reader too many would leave another partition without one, and
    # its next reader with two partitions.
    for member in members:
        kept: set[int] = set()
        for partition in sorted(readers.keys() & current.get(member, {}).get(topic_id, frozenset())):
            count = len(readers[partition])
            may_keep = len(kept) < share or (len(kept) == share and one_more > 0)
            may_read = count < readers_min or (count == readers_min and crowded > 0)
            if may_keep and may_read:
                one_more -= len(kept) == share
                crowded -= count == readers_min
                readers[partition].add(member)
                kept.add(partition)
        if kept:
            given[member] = kept
    least = [(len(given.get(member, ())), load[member], member) for member in members]
    heapify(least)
    for partition in wanted:  # every partition gets a reader
        if not readers[partition]:
            count, before, member = least[0]
            heapreplace(least, (count + 1, before, member))
            readers[partition].add(member)
            given.setdefault(member, set()).add(partition)
    for member in sorted(members, key=lambda name: (load[name], name)):  # every member gets a partition
        if member not in given:
            partition = min(wanted, key=lambda one: (len(readers[one]), one))
            readers[partition].add(member)
            given[member] = {partition}
    return given


ASSIGNORS: Mapping[str, Assignor] = {"simple": assign}
"""Assignors by their names in `group.share.assignors`."""
