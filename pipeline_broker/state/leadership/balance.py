"""Moves that make all members lead about equally many partitions, and preferred leaders lead again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pipeline_broker.state.leadership.records import NO_NODE, PartitionKey, PartitionRecord

__all__ = ["MOVES_MAX", "Move", "next_moves"]

MOVES_MAX = 4
"""Moves in progress at a time."""


class Move(NamedTuple):
    """A wish that another member leads a partition.

    Attributes:
        candidates: of the partition from then on. A partition that moves for the balance prefers its new leader;
            otherwise the next decision would move it back.
    """

    key: PartitionKey
    to: int
    candidates: tuple[int, ...]


def next_moves(
    partitions: Mapping[PartitionKey, PartitionRecord],
    members: Collection[int],
    may_move: Callable[[PartitionKey], bool] = lambda _: True,
) -> list[Move]:
    """Return the next moves, none if all is even within one partition and preferred leaders lead.

    Args:
        members: nodes that serve.
        may_move: whether a partition has rested since its last move.
    """
    room = MOVES_MAX - sum(partition.wanted != NO_NODE for partition in partitions.values())
    moves: list[Move] = []
    led = Counter(dict.fromkeys(members, 0))
    for partition in partitions.values():
        # A partition that is about to move counts for its next leader.
        led[partition.leader if partition.wanted == NO_NODE else partition.wanted] += 1
    free = {key: it for key, it in partitions.items() if it.wanted == NO_NODE and it.leader in members}
    for key, partition in free.items():
        preferred = next(iter(partition.candidates), partition.leader)
        if len(moves) < room and preferred != partition.leader and preferred in members and may_move(key):
            moves.append(Move(key, preferred, partition.candidates))
            led[partition.leader] -= 1
            led[preferred] += 1
    moved = {move.key for move in moves}
    while len(moves) < room and members:
        least, most = (choose(members, key=lambda node: (led[node], node)) for choose in (min, max))
        if led[most] - led[least] <= 1:
            break
        movable = (key for key, it in free.items() if it.leader == most and key not in moved and may_move(key))
        chosen = next(movable, None)
        if chosen is None:
            break
        others = tuple(node for node in free[chosen].candidates if node != least)
        moves.append(Move(chosen, least, (least, *others)))
        moved.add(chosen)
        led[most] -= 1
        led[least] += 1
    return moves
