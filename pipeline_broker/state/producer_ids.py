"""Ids of idempotent producers, never given out twice, not even across a restart.

Ids come in blocks: a record says that a block is taken, and an id of it may be told to a client once that record is
durable. Until then every allocation carries the record again, so that each caller waits for a record of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline_broker.state.metadata_records import producer_ids_record, read_producer_ids
from pipeline_broker.state.outcome import Write

__all__ = ["BLOCK_SIZE", "Allocation", "ProducerIds"]

BLOCK_SIZE = 1_000


class Allocation(NamedTuple):
    """A fresh id; with a write, it may be told only when that is durable."""

    producer_id: int
    write: Write | None


class ProducerIds:
    """The next free id, and how far the durable blocks reach."""

    def __init__(self) -> None:
        self._next = 0
        self._taken = 0
        self._durable = 0

    def allocate(self) -> Allocation:
        """Give out an id; ids of an allocation that failed are lost, which is harmless."""
        producer_id = self._next
        self._next += 1
        if producer_id >= self._taken:
            self._taken = producer_id + BLOCK_SIZE
        if producer_id < self._durable:
            return Allocation(producer_id, None)
        return Allocation(producer_id, Write("", (producer_ids_record(self._taken),), self._taken))

    def durable(self, write: Write) -> None:
        """The record of a block is durable."""
        assert isinstance(write.change, int)
        self._durable = max(self._durable, write.change)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take over one durable record: everything it covers counts as given out."""
        taken = read_producer_ids(key, value)
        if taken is not None:
            self._next = self._taken = self._durable = max(self._durable, taken)
