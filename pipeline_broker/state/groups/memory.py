"""How much memory groups of all kinds hold with their offsets and share states, and how much they may.

Rules of this file: each group counts what its members say, and what they are given, in a `HeldBytes` of its own, where
that changes; the registry adds the group to the total while it is in it. What only repeats what clients have sent, or
follows from it, is counted with it by a factor. Kafka has no such bound: it bounds members (`group.max.size`), not what
each of them says.
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
    "HeldBytes",
    "size_of_names",
    "sizes_of",
]

GROUP_BYTES = 2_000
"""An empty group, with its place in all tables."""
MEMBER_BYTES = 2_000
"""A member that says nothing, with its timers."""
OFFSET_BYTES = 500
"""A committed offset without metadata."""
SHARE_STATE_BYTES = 1_000
"""What the coordinators of groups and of share states keep of a partition that a share group reads."""
ENTRY_BYTES = 150
"""A partition that a member is given, or the entry of a name in a table."""
MEMBER_SHARE = 8
"""A single member may hold so small a part of what all groups may."""


def sizes_of(values: Iterable[str | bytes | None]) -> int:
    """Bytes that texts take in memory."""
    return sum(map(getsizeof, values))


def size_of_names(names: Collection[str]) -> int:
    """Bytes that names take with their entries in a table."""
    return sizes_of(names) + ENTRY_BYTES * len(names)


class GroupMemory:
    """What all groups hold together.

    Attributes:
        bytes_max: the bound; it may be changed at any time.
        bytes_held: what they hold.
        refused: requests that were refused for it.
    """

    __slots__ = ("bytes_held", "bytes_max", "refused")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self.refused = 0

    @property
    def refusal(self) -> str:
        """What a client is told that was refused."""
        return (
            f"The groups of this broker may hold {self.bytes_max} bytes, one member {self.bytes_max // MEMBER_SHARE}:"
            " this would be more."
        )

    @property
    def room_bytes(self) -> int:
        """How much more may be held."""
        return max(0, self.bytes_max - self.bytes_held)

    def has_room(self, added_bytes: int) -> bool:
        """Whether so much more may be held; what shrinks, or stays as large, is never refused."""
        if added_bytes <= self.room_bytes:
            return True
        self.refused += 1
        return False

    def admits(self, held_bytes: int, wanted_bytes: int) -> bool:
        """Whether a member that holds `held_bytes` may hold `wanted_bytes`."""
        if held_bytes < wanted_bytes > self.bytes_max // MEMBER_SHARE:
            self.refused += 1
            return False
        return self.has_room(wanted_bytes - held_bytes)


class HeldBytes:
    """What one group holds; counted in a total while it is part of one."""

    __slots__ = ("_count", "_total")

    def __init__(self) -> None:
        self._count = 0
        self._total: GroupMemory | None = None

    @property
    def count(self) -> int:
        """Bytes that it holds."""
        return self._count

    def add(self, size_bytes: int) -> None:
        """It holds so much more, or less."""
        self._count += size_bytes
        if self._total is not None:
            self._total.bytes_held += size_bytes

    def count_in(self, total: GroupMemory | None) -> None:
        """Be part of a total, or of none."""
        if self._total is not None:
            self._total.bytes_held -= self._count
        self._total = total
        if total is not None:
            total.bytes_held += self._count
