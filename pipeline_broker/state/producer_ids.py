"""Ids of idempotent producers, which are never allocated twice, not even after a restart."""

from __future__ import annotations

from typing import NamedTuple

from pipeline_broker.state.metadata_records import producer_ids_record, read_producer_ids
from pipeline_broker.state.outcome import Write

__all__ = ["BLOCK_SIZE", "Allocation", "ProducerIds"]

BLOCK_SIZE = 1_000


class Allocation(NamedTuple):
    """A new producer id. If it has a write, the client may receive the id only once the write is durable."""

    producer_id: int
    write: Write | None


class ProducerIds:
    """An allocator of producer ids in blocks.

    A record reserves a block, and its ids may be given to clients once the record is durable.

    Args:
        first: the lowest id to allocate.
    """

    def __init__(self, first: int = 0) -> None:
        # Ids below `_taken` are in reserved blocks; the records of those below `_durable` are durable.
        self._next = self._taken = self._durable = first

    def allocate(self) -> Allocation:
        """Allocate an id. If the write of an allocation fails, its id is lost, which is harmless."""
        producer_id = self._next
        self._next += 1
        if producer_id >= self._taken:
            self._taken = producer_id + BLOCK_SIZE
        if producer_id < self._durable:
            return Allocation(producer_id, None)
        # Every allocation repeats the record until the block is durable, so that each caller waits for a record of its
        # own.
        return Allocation(producer_id, Write("", (producer_ids_record(self._taken),), self._taken))

    def durable(self, write: Write) -> None:
        assert isinstance(write.change, int)
        self._durable = max(self._durable, write.change)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one durable record: all ids of its blocks count as allocated. Ignore records of other types.

        Raises:
            CorruptStateRecordError: the record cannot be decoded.
        """
        taken = read_producer_ids(key, value)
        if taken is not None:
            self._next = self._taken = self._durable = max(self._durable, taken)
