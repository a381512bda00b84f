"""The assignor `simple`: who of a share group reads which partitions.

Rules of this file: it decides from members, partitions and what everybody has now, and keeps nothing. Every partition
has as many members as every other of its topic, give or take one, and at least one; with more members than partitions
they share them, so that nobody is idle. Who has a partition keeps it while that is fair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heapify, heapreplace
from typing import TypeAlias

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "assign"]

Assignment: TypeAlias = Mapping[bytes, frozenset[int]]
"""Topic id: partitions."""
Assignor: TypeAlias = Callable[
    [Mapping[bytes, Collection[str]], Mapping[bytes, Collection[int]], Mapping[str, Assignment]],
    dict[str, dict[bytes, frozenset[int]]],
]
"""As `assign`."""


def assign(
    subscribers: Mapping[bytes, Collection[str]],
    partitions: Mapping[bytes, Collection[int]],
    current: Mapping[str, Assignment],
) -> dict[str, dict[bytes, frozenset[int]]]:
    """Who shall read what.

    Args:
        subscribers: the members of each topic, by its id.
        partitions: those of each topic that can be read.
        current: what each member has.

    Returns:
        of every member that has something.
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
    """The partitions of one topic for those who subscribe to it."""
    readers_min, more = divmod(len(members), len(wanted))
    readers_max = max(1, readers_min + (1 if more else 0))
    share, one_more = divmod(len(wanted), len(members)) if readers_min < 1 else (1, 0)
    readers: dict[int, set[str]] = {partition: set() for partition in wanted}
    given: dict[str, set[int]] = {}
    for member in members:  # what is fair stays: so many may keep one more than the others
        kept: set[int] = set()
        for partition in sorted(current.get(member, {}).get(topic_id, ())):
            has_room = len(kept) < share or (len(kept) == share and one_more > 0)
            if partition in readers and len(readers[partition]) < readers_max and has_room:
                one_more -= len(kept) == share
                readers[partition].add(member)
                kept.add(partition)
        if kept:
            given[member] = kept
    least = [(len(given.get(member, ())), load[member], member) for member in members]
    heapify(least)
    for partition in wanted:  # nothing is left unread
        if not readers[partition]:
            count, before, member = least[0]
            heapreplace(least, (count + 1, before, member))
            readers[partition].add(member)
            given.setdefault(member, set()).add(partition)
    for member in sorted(members, key=lambda name: (load[name], name)):  # nobody is idle
        if member not in given:
            partition = min(wanted, key=lambda one: (len(readers[one]), one))
            readers[partition].add(member)
            given[member] = {partition}
    return given


ASSIGNORS: Mapping[str, Assignor] = {"simple": assign}
"""By their names in `group.share.assignors`."""
