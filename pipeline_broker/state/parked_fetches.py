"""Fetches that wait for enough bytes, or for their deadline.

Rules of this file: it counts bytes and reads none. A fetch is parked with what it could read when it came; `notify`
adds what became visible since, each partition up to what the fetch would take from it. What a reader of committed
records may read does not grow with the log but when transactions end, so it is asked for anew. Whoever is returned is
no longer parked.
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
    """What a fetch could read of one partition, and the most it would take.

    Attributes:
        measure: tells what it could read now; None where that grows by what is added to the partition.
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
    """All fetches that wait; tokens are the caller's and must be distinct.

    Attributes:
        expired: fetches that waited until their deadline.
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
        """In how many partitions fetches wait, each fetch with all of its partitions."""
        return sum(map(len, self._by_partition.values()))

    def is_watched(self, partition: Partition) -> bool:
        """Whether a fetch waits for what comes to a partition."""
        return partition in self._by_partition

    def partitions_of(self, token: Token) -> Collection[Partition]:
        """What a parked fetch waits for."""
        return self._parked[token].partitions.keys()

    def park(self, token: Token, partitions: Mapping[Partition, Readable], bytes_min: int, deadline_ms: int) -> bool:
        """Park a fetch; False (and not parked) when it has enough already."""
        assert token not in self._parked
        missing_bytes = bytes_min
        for part in partitions.values():  # maybe 10,000, of which most have nothing
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
        """Count bytes that became visible; returns the fetches that have enough now, oldest first."""
        ready = []
        for parked in self._by_partition.get(partition, {}).values():
            readable = parked.partitions[partition]
            before = min(readable.size_bytes, readable.size_bytes_max)
            measure = readable.measure
            readable.size_bytes = readable.size_bytes + added_bytes if measure is None else measure()
            parked.missing_bytes -= min(readable.size_bytes, readable.size_bytes_max) - before
            if parked.missing_bytes <= 0:
                ready.append(parked.token)
        return self._release(ready)

    def wake(self, partition: Partition) -> list[Token]:
        """Something else happened to a partition (it was deleted, its log was cut): all who wait for it look again."""
        return self._release(list(self._by_partition.get(partition, ())))

    def advance(self, now_ms: int) -> list[Token]:
        """Return the fetches whose deadline has come, in the order of their deadlines."""
        due = self._release(list(self._deadlines.pop_due(now_ms)))
        self.expired += len(due)
        return due

    def next_deadline_ms(self) -> int | None:
        """When `advance` must be called at the latest."""
        return self._deadlines.next_ms()

    def cancel(self, token: Token) -> bool:
        """Forget a fetch nobody waits for any more; False when it was not parked."""
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
