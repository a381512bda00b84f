"""Purgatory of fetches that wait for `min_bytes` or for their deadline.

Counterpart in Kafka: `DelayedFetch`, its purgatory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

import attrs

from pipeline_broker.state.deadlines import Deadlines

__all__ = ["ParkedFetches", "Readable"]

Token = TypeVar("Token", bound=Hashable)
Partition = TypeVar("Partition", bound=Hashable)


@attrs.define
class Readable:
    """The bytes that a parked fetch could read of one partition.

    Attributes:
        size_bytes: readable bytes.
        size_bytes_max: the most that the fetch would take.
        measure: returns the readable bytes at present. A reader of committed records needs it, because these grow when
            transactions end, not with each append. None if `size_bytes` grows by the appended bytes.
    """

    size_bytes: int
    size_bytes_max: int
    measure: Callable[[], int] | None = None


@attrs.define(eq=False)
class _Parked(Generic[Token, Partition]):
    token: Token
    missing_bytes: int
    partitions: dict[Partition, Readable]


class ParkedFetches(Generic[Token, Partition]):
    """All parked fetches. It counts bytes and reads none.

    Tokens are the caller's and must be distinct. A fetch that a method returns is not parked any more.

    Attributes:
        expired: number of fetches that waited until their deadline.
    """

    def __init__(self) -> None:
        self._parked: dict[Token, _Parked[Token, Partition]] = {}
        self._by_partition: dict[Partition, dict[Token, _Parked[Token, Partition]]] = {}
        self._deadlines: Deadlines[Token] = Deadlines()
        self.expired = 0

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def watched(self) -> int:
        """Sum of the partitions of all parked fetches; shared ones count once per fetch."""
        return sum(map(len, self._by_partition.values()))

    def is_watched(self, partition: Partition) -> bool:
        return partition in self._by_partition

    def partitions_of(self, token: Token) -> Collection[Partition]:
        return self._parked[token].partitions.keys()

    def park(self, token: Token, partitions: Mapping[Partition, Readable], bytes_min: int, deadline_ms: int) -> bool:
        """Park a fetch; return False, without parking it, if it has enough bytes already."""
        assert token not in self._parked
        missing_bytes = bytes_min
        for part in partitions.values():  # up to 10,000, most of them without bytes
            if part.size_bytes:
                missing_bytes -= min(part.size_bytes, part.size_bytes_max)
        if missing_bytes <= 0:
            return False
        parked = _Parked(token, missing_bytes, dict(partitions))
        self._parked[token] = parked
        by_partition = self._by_partition
        for partition in parked.partitions:
            if partition in by_partition:
                by_partition[partition][token] = parked
            else:
                by_partition[partition] = {token: parked}
        self._deadlines.set(token, deadline_ms)
        return True

    def notify(self, partition: Partition, added_bytes: int) -> list[Token]:
        """Count bytes that became visible in a partition; return the fetches that now have enough, oldest first."""
        ready = []
        for parked in self._by_partition.get(partition, {}).values():
            readable = parked.partitions[partition]
            before = min(readable.size_bytes, readable.size_bytes_max)
            measure = readable.measure
            readable.size_bytes = readable.size_bytes + added_bytes if measure is None else measure()
            # Only bytes that the fetch would take count: those beyond its limit for the partition do not complete it.
            parked.missing_bytes -= min(readable.size_bytes, readable.size_bytes_max) - before
            if parked.missing_bytes <= 0:
                ready.append(parked.token)
        return self._release(ready)

    def wake(self, partition: Partition) -> list[Token]:
        """Release all fetches of a partition that was deleted or truncated, so that they check it again."""
        return self._release(list(self._by_partition.get(partition, ())))

    def advance(self, now_ms: int) -> list[Token]:
        """Release and count the expired fetches, in the order of their deadlines."""
        due = self._release(list(self._deadlines.pop_due(now_ms)))
        self.expired += len(due)
        return due

    def next_deadline_ms(self) -> int | None:
        """Return the latest time for the next `advance`; None if no fetch is parked."""
        return self._deadlines.next_ms()

    def cancel(self, token: Token) -> bool:
        """Release a fetch that its client no longer waits for; return False if it was not parked."""
        return bool(self._release([token])) if token in self._parked else False

    def _release(self, tokens: list[Token]) -> list[Token]:
        for token in tokens:
            parked = self._parked.pop(token)
            self._deadlines.cancel(token)
            for partition in parked.partitions:
                waiting = self._by_partition[partition]
                del waiting[token]
                if not waiting:
                    del self._by_partition[partition]
        return tokens
