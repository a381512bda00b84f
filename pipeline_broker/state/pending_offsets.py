"""Offsets that transactions have stored and not decided yet.

Rules of this file: an offset waits here from the moment its record is durable until the marker of its transaction is.
Transactions end in one partition of the offsets' topic at a time, so a producer's offsets are kept for each. From the
append on, before it is durable, an offset is unstable: somebody who wants stable ones must not be shown the older one.
Of a stored offset and one that was committed without a transaction the later record counts, as in Apache Kafka: a
record that becomes durable while an offset waits overtakes it. What waits is counted as what is committed is, because a
transaction may stay open for long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from sys import getsizeof
from typing import NamedTuple

from pipeline_broker.state.group_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.memory import OFFSET_BYTES, GroupMemory

__all__ = ["Holder", "PendingOffsets", "growth_of_offset", "size_of_offset"]


def size_of_offset(key: OffsetKey, committed: CommittedOffset | None) -> int:
    """Bytes that an offset takes in memory; 0 where there is none."""
    return 0 if committed is None else OFFSET_BYTES + getsizeof(key.topic) + getsizeof(committed.metadata)


def growth_of_offset(key: OffsetKey, before: CommittedOffset | None, committed: CommittedOffset) -> int:
    """How much more it takes than the one before."""
    if before is None:
        return OFFSET_BYTES + getsizeof(key.topic) + getsizeof(committed.metadata)
    return 0 if before.metadata == committed.metadata else getsizeof(committed.metadata) - getsizeof(before.metadata)


class Holder(NamedTuple):
    """Whose transaction, in which partition of the offsets' topic."""

    partition: int
    producer_id: int


class PendingOffsets:
    """The offsets of open transactions.

    Args:
        memory: what they hold is counted there.
    """

    def __init__(self, memory: GroupMemory) -> None:
        self._memory = memory
        self._held: dict[Holder, dict[OffsetKey, CommittedOffset | None]] = {}
        self._held_bytes: dict[Holder, int] = {}
        self._to_release: dict[Holder, dict[str, list[OffsetKey]]] = {}  # those of each group
        self._unstable: dict[str, Counter[OffsetKey]] = {}

    def __bool__(self) -> bool:
        return bool(self._unstable)

    def append(self, keys: Sequence[OffsetKey]) -> None:
        """Records of a transaction were appended: offsets of a group, unstable until `end`, or `drop`."""
        self._unstable.setdefault(keys[0].group_id, Counter()).update(keys)

    def drop(self, group_id: str, keys: Sequence[OffsetKey]) -> None:
        """The records of a group will never be durable, or their transaction has ended."""
        unstable = self._unstable[group_id]
        if unstable.total() == len(keys):  # nobody else has stored any: each key costs more than to count all
            del self._unstable[group_id]
            return
        for key in keys:
            left = unstable.pop(key) - 1
            if left:
                unstable[key] = left

    def hold(self, holder: Holder, changes: Iterable[tuple[OffsetKey, CommittedOffset]]) -> None:
        """They are durable: what they say about a group becomes visible if the transaction commits."""
        held = self._held.setdefault(holder, {})
        to_release: list[OffsetKey] = []
        growth = 0
        for key, committed in changes:
            growth += growth_of_offset(key, held.get(key), committed)
            held[key] = committed
            to_release.append(key)
        if to_release:
            self._to_release.setdefault(holder, {}).setdefault(to_release[0].group_id, []).extend(to_release)
        self._count(holder, growth)

    def _count(self, holder: Holder, growth: int) -> None:
        """A transaction holds so much more, or less."""
        self._memory.bytes_held += growth
        self._held_bytes[holder] = self._held_bytes.get(holder, 0) + growth

    def overtake(self, key: OffsetKey) -> None:
        """A record about the offset became durable that belongs to no transaction: it is later than all that waits."""
        if self.is_unstable(key):
            for holder, held in self._held.items():
                if key in held:
                    self._count(holder, -size_of_offset(key, held[key]))
                    held[key] = None

    def end(self, holder: Holder) -> list[tuple[OffsetKey, CommittedOffset]]:
        """The marker is durable: what the transaction had stored, but for what was overtaken."""
        for group_id, keys in self._to_release.pop(holder, {}).items():
            self.drop(group_id, keys)
        held = self._held.pop(holder, {})
        self._memory.bytes_held -= self._held_bytes.pop(holder, 0)
        return [(key, committed) for key, committed in held.items() if committed is not None]

    def get(self, holder: Holder, key: OffsetKey) -> CommittedOffset | None:
        """What a transaction has stored for a partition, unless it was overtaken."""
        return self._held.get(holder, {}).get(key)

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether a transaction that is open may change the offset."""
        return key in self._unstable.get(key.group_id, ())

    def all(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """What transactions have stored, but for what was overtaken."""
        for held in self._held.values():
            for key, committed in held.items():
                if committed is not None:
                    yield key, committed

    def of_group(self, group_id: str) -> Iterator[OffsetKey]:
        """The unstable offsets of a group."""
        return iter(self._unstable.get(group_id, ()))

    def groups(self) -> Iterator[str]:
        return iter(self._unstable)
