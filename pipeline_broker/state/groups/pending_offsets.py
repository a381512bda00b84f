"""Offsets of open transactions.

Counterpart in Kafka: `OffsetMetadataManager`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from sys import getsizeof

from pipeline_broker.state.groups.memory import OFFSET_BYTES, GroupMemory
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey

__all__ = ["PendingOffsets", "growth_of_offset", "size_of_offset"]


def size_of_offset(key: OffsetKey, committed: CommittedOffset | None) -> int:
    return 0 if committed is None else OFFSET_BYTES + getsizeof(key.topic) + getsizeof(committed.metadata)


def growth_of_offset(key: OffsetKey, before: CommittedOffset | None, committed: CommittedOffset) -> int:
    """Return the additional memory in bytes when `committed` replaces `before`."""
    if before is None:
        return OFFSET_BYTES + getsizeof(key.topic) + getsizeof(committed.metadata)
    # Most commits repeat the metadata; comparing it is faster than two calls of getsizeof.
    return 0 if before.metadata == committed.metadata else getsizeof(committed.metadata) - getsizeof(before.metadata)


class PendingOffsets:
    """The offsets of open transactions, held by producer until the marker of the transaction is durable.

    * An offset is unstable from the append of its record, before the record is durable. Readers of stable offsets must
      not get the previous offset.
    * Of a transaction's offset and one committed without a transaction, the later record wins, as in Kafka: a record
      that becomes durable while an offset is held overrides it.
    * Held offsets count as memory like committed ones, because a transaction may stay open for long.

    Args:
        memory: accounts for the memory of the offsets.
    """

    def __init__(self, memory: GroupMemory) -> None:
        self._memory = memory
        # None stands for an offset that a later record overrode.
        self._held: dict[int, dict[OffsetKey, CommittedOffset | None]] = {}
        self._held_bytes: dict[int, int] = {}
        self._to_release: dict[int, dict[str, list[OffsetKey]]] = {}  # by group
        # By group: the number of appended records of open transactions for each offset.
        self._unstable: dict[str, Counter[OffsetKey]] = {}

    def __bool__(self) -> bool:
        return bool(self._unstable)

    def append(self, keys: Sequence[OffsetKey]) -> None:
        """Mark offsets of one group unstable until `end` or `drop`, because records of a transaction were appended."""
        self._unstable.setdefault(keys[0].group_id, Counter()).update(keys)

    def drop(self, group_id: str, keys: Sequence[OffsetKey]) -> None:
        """Undo one `append`: the records were not written, or their transaction has ended."""
        unstable = self._unstable[group_id]
        # No other transaction has offsets of the group. Counting all is cheaper than handling each key.
        if unstable.total() == len(keys):
            del self._unstable[group_id]
            return
        for key in keys:
            left = unstable.pop(key) - 1
            if left:
                unstable[key] = left

    def hold(self, producer_id: int, changes: Iterable[tuple[OffsetKey, CommittedOffset]]) -> None:
        """Hold durable offsets of one group until the transaction ends."""
        held = self._held.setdefault(producer_id, {})
        to_release: list[OffsetKey] = []
        growth = 0
        for key, committed in changes:
            growth += growth_of_offset(key, held.get(key), committed)
            held[key] = committed
            to_release.append(key)
        if to_release:
            self._to_release.setdefault(producer_id, {}).setdefault(to_release[0].group_id, []).extend(to_release)
        self._count(producer_id, growth)

    def _count(self, producer_id: int, growth: int) -> None:
        self._memory.bytes_held += growth
        self._held_bytes[producer_id] = self._held_bytes.get(producer_id, 0) + growth

    def overtake(self, key: OffsetKey) -> None:
        """Override the held values of an offset, because a later record without a transaction became durable."""
        if self.is_unstable(key):
            for producer_id, held in self._held.items():
                if key in held:
                    self._count(producer_id, -size_of_offset(key, held[key]))
                    held[key] = None

    def end(self, producer_id: int) -> list[tuple[OffsetKey, CommittedOffset]]:
        """Release a transaction whose marker is durable and return its offsets, except overridden ones."""
        for group_id, keys in self._to_release.pop(producer_id, {}).items():
            self.drop(group_id, keys)
        held = self._held.pop(producer_id, {})
        self._memory.bytes_held -= self._held_bytes.pop(producer_id, 0)
        return [(key, committed) for key, committed in held.items() if committed is not None]

    def get(self, producer_id: int, key: OffsetKey) -> CommittedOffset | None:
        return self._held.get(producer_id, {}).get(key)

    def is_unstable(self, key: OffsetKey) -> bool:
        return key in self._unstable.get(key.group_id, ())

    def all(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        for held in self._held.values():
            for key, committed in held.items():
                if committed is not None:
                    yield key, committed

    def of_group(self, group_id: str) -> Iterator[OffsetKey]:
        return iter(self._unstable.get(group_id, ()))

    def groups(self) -> Iterator[str]:
        return iter(self._unstable)
