"""The choice of a partition for a record, like Kafka's default partitioner.

A key is hashed with murmur2, as in Java's clients and librdkafka's `murmur2_random`. Records without a key stay in one
partition for STICKY_BYTES, so that batches are large (KIP-480, KIP-794).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from pipeline_broker.records.murmur2 import partition_of

__all__ = ["Partitioner"]

STICKY_BYTES = 64 << 10
"""Bytes of records without a key that a partition receives before the next partition's turn."""


class Partitioner:
    """A partitioner of one topic.

    Args:
        partitions: the number of partitions.
        choose: returns a random number from 0 up to, but not including, its argument. It selects the first partition
            for records without keys.
    """

    def __init__(self, partitions: int, choose: Callable[[int], int] = random.randrange) -> None:
        self._count = partitions
        self._sticky = choose(partitions)
        self._left_bytes = STICKY_BYTES

    def choose(self, key: bytes | None, size_bytes: int) -> int:
        """Return the partition of a record. `size_bytes` matters only without a key."""
        if key is not None:
            return partition_of(key, self._count)
        if self._left_bytes <= 0:
            self._sticky = (self._sticky + 1) % self._count
            self._left_bytes = STICKY_BYTES
        self._left_bytes -= size_bytes
        return self._sticky
