"""Offsets that transactions have stored and not decided yet.

Rules of this file: an offset waits here from the moment its record is durable until the marker of its transaction is.
Transactions end in one partition of the offsets' topic at a time, so a producer's offsets are kept for each. From the
append on, before it is durable, an offset is unstable: somebody who wants stable ones must not be shown the older one.
Of a stored offset and one that was committed without a transaction the later record counts, as in Apache Kafka: a
record that becomes durable while an offset waits overtakes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline_broker.state.group_records import CommittedOffset, OffsetKey

__all__ = ["Holder", "PendingOffsets"]


class Holder(NamedTuple):
    """Whose transaction, in which partition of the offsets' topic."""

    partition: int
    producer_id: int


class PendingOffsets:
    """The offsets of open transactions."""

    def __init__(self) -> None:
        self._held: dict[Holder, dict[OffsetKey, CommittedOffset | None]] = {}
        self._to_release: dict[Holder, list[OffsetKey]] = {}
        self._unstable: dict[str, Counter[OffsetKey]] = {}

    def __bool__(self) -> bool:
        return bool(self._unstable)

    def append(self, keys: Iterable[OffsetKey]) -> None:
        """Records of a transaction were appended: their offsets are unstable until `end`, or `drop`."""
        for key in keys:
            self._unstable.setdefault(key.group_id, Counter())[key] += 1

    def drop(self, keys: Iterable[OffsetKey]) -> None:
        """The records will never be durable."""
        for key in keys:
            unstable = self._unstable[key.group_id]
            unstable[key] -= 1
            if not unstable[key]:
                del unstable[key]
            if not unstable:
                del self._unstable[key.group_id]

    def hold(self, holder: Holder, changes: Iterable[tuple[OffsetKey, CommittedOffset]]) -> None:
        """They are durable: what they say becomes visible if the transaction commits."""
        held = self._held.setdefault(holder, {})
        to_release = self._to_release.setdefault(holder, [])
        for key, committed in changes:
            held[key] = committed
            to_release.append(key)

    def overtake(self, key: OffsetKey) -> None:
        """A record about the offset became durable that belongs to no transaction: it is later than all that waits."""
        if self.is_unstable(key):
            for held in self._held.values():
                if key in held:
                    held[key] = None

    def end(self, holder: Holder) -> list[tuple[OffsetKey, CommittedOffset]]:
        """The marker is durable: what the transaction had stored, but for what was overtaken."""
        self.drop(self._to_release.pop(holder, ()))
        held = self._held.pop(holder, {})
        return [(key, committed) for key, committed in held.items() if committed is not None]

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether a transaction that is open may change the offset."""
        return key in self._unstable.get(key.group_id, ())

    def of_group(self, group_id: str) -> Iterator[OffsetKey]:
        """The unstable offsets of a group."""
        return iter(self._unstable.get(group_id, ()))

    def groups(self) -> Iterator[str]:
        """The groups that have any."""
        return iter(self._unstable)
