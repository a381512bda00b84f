"""The first leaders of new partitions: spread over the members, so that all lead about equally many."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping

__all__ = ["candidates_of", "first_leaders"]


def first_leaders(led: Mapping[int, int], start: int = 0) -> Iterator[int]:
    """Yield the leaders of new partitions without end: each time the member that leads the fewest.

    Args:
        led: number of partitions that each member leads; not empty.
        start: chooses among members that lead equally many, so that topics of one partition do not all go to the first.
    """
    nodes = sorted(led)
    order = {node: index for index, node in enumerate(nodes[start % len(nodes) :] + nodes[: start % len(nodes)])}
    waiting = [(led[node], order[node], node) for node in nodes]
    heapq.heapify(waiting)
    while True:
        loads, place, node = waiting[0]
        yield node
        heapq.heapreplace(waiting, (loads + 1, place, node))


def candidates_of(leader: int, members: Collection[int], count: int) -> tuple[int, ...]:
    """Return the nodes that may lead a partition: the leader, and the members after it in the order of their ids."""
    nodes = sorted(members)
    begin = nodes.index(leader)
    return tuple((nodes[begin:] + nodes[:begin])[:count])
