"""A bound on the memory that groups hold, with their committed offsets and share states.

Kafka has no such bound: `group.max.size` limits the members of a group, not the size of their metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from sys import getsizeof

__all__ = [
    "ENTRY_BYTES",
    "GROUP_BYTES",
    "MEMBER_BYTES",
    "OFFSET_BYTES",
    "SHARE_STATE_BYTES",
    "GroupMemory",
    "GroupMemoryShare",
    "HeldBytes",
    "size_of_names",
    "sizes_of",
]

# Estimates for CPython objects. Each includes the data that the broker derives from the client's own.
GROUP_BYTES = 2_000
"""An empty group, with its entries in all tables."""
MEMBER_BYTES = 2_000
"""A member without metadata, with its timers."""
OFFSET_BYTES = 500
"""A committed offset without metadata."""
SHARE_STATE_BYTES = 1_000
"""A partition of a share group, in the group coordinator and the share coordinator together."""
ENTRY_BYTES = 150
"""An assigned partition, or the entry of a name in a table."""
# One member may hold at most 1/8 of the memory of all groups.
MEMBER_SHARE = 8


def sizes_of(values: Iterable[str | bytes | None]) -> int:
    return sum(map(getsizeof, values))


def size_of_names(names: Collection[str]) -> int:
    """Return the memory that names take, including their entries in a table, in bytes."""
    return sizes_of(names) + ENTRY_BYTES * len(names)


class GroupMemory:
    """The memory of all groups together, and its bound.

    Attributes:
        bytes_held: memory that all groups and offsets hold at present.
        bytes_max: the bound; may be changed at any time.
        refused: number of requests refused because of the bound.
    """

    __slots__ = ("bytes_held", "bytes_max", "refused")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self.refused = 0

    @property
    def refusal(self) -> str:
        return (
            f"This request needs more memory than groups may hold: {self.bytes_max} bytes together, and"
            f" {self.bytes_max // MEMBER_SHARE} bytes for one member. Raise pipeline.group.bytes, or use fewer groups."
        )

    @property
    def free_bytes(self) -> int:
        return max(0, self.bytes_max - self.bytes_held)

    def has_room(self, added_bytes: int) -> bool:
        """Return whether `added_bytes` more may be held; otherwise count a refusal.

        A change that takes no more memory than before always fits, even if the bound was lowered.
        """
        if added_bytes <= self.free_bytes:
            return True
        self.refused += 1
        return False

    def admits(self, held_bytes: int, wanted_bytes: int) -> bool:
        """Return whether one member may grow from `held_bytes` to `wanted_bytes`; otherwise count a refusal."""
        # A member that does not grow is never refused, even if the bound was lowered.
        if held_bytes < wanted_bytes > self.bytes_max // MEMBER_SHARE:
            self.refused += 1
            return False
        return self.has_room(wanted_bytes - held_bytes)


class GroupMemoryShare(GroupMemory):
    """The memory of the groups of one coordinator, which counts in the total of all until `release`."""

    __slots__ = ("_own", "_total")

    def __init__(self, total: GroupMemory) -> None:
        self._total, self._own = total, 0

    @property
    def bytes_held(self) -> int:
        return self._total.bytes_held

    @bytes_held.setter
    def bytes_held(self, size_bytes: int) -> None:
        self._own += size_bytes - self._total.bytes_held
        self._total.bytes_held = size_bytes

    @property
    def bytes_max(self) -> int:
        return self._total.bytes_max

    @bytes_max.setter
    def bytes_max(self, size_bytes: int) -> None:
        self._total.bytes_max = size_bytes

    @property
    def refused(self) -> int:
        return self._total.refused

    @refused.setter
    def refused(self, count: int) -> None:
        self._total.refused = count

    def release(self) -> None:
        # Writes in progress still complete, and then count in no total.
        self._total.bytes_held -= self._own
        self._total = GroupMemory(self._total.bytes_max)


class HeldBytes:
    """The memory of one group, included in a total while the group is registered."""

    __slots__ = ("_count", "_total")

    def __init__(self) -> None:
        self._count = 0
        self._total: GroupMemory | None = None

    @property
    def count(self) -> int:
        return self._count

    def add(self, size_bytes: int) -> None:
        """Add to the memory of the group; `size_bytes` is negative if it shrinks."""
        self._count += size_bytes
        if self._total is not None:
            self._total.bytes_held += size_bytes

    def count_in(self, total: GroupMemory | None) -> None:
        if self._total is not None:
            self._total.bytes_held -= self._count
        self._total = total
        if total is not None:
            total.bytes_held += self._count
