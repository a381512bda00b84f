"""Which partition a record goes to: Kafka's own choice.

Rules of this file: no I/O. A key decides by murmur2, so that it lands where Java's clients, and librdkafka's with
`murmur2_random`, put it. Records without a key go to one partition until it has got its share, then to another (KIP-480
and KIP-794), so that batches are large.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from pipeline_broker.records.murmur2 import partition_of

__all__ = ["Partitioner"]

STICKY_BYTES = 64 << 10
"""What a partition gets in turn."""


class Partitioner:
    """Chooses among the partitions of one topic.

    Args:
        partitions: how many there are.
        choose: draws the first partition for records without keys.
    """

    def __init__(self, partitions: int, choose: Callable[[int], int] = random.randrange) -> None:
        self._count = partitions
        self._sticky = choose(partitions)
        self._left_bytes = STICKY_BYTES

    def choose(self, key: bytes | None, size_bytes: int) -> int:
        """Return the partition of a record with this key; only without a key its size matters."""
        if key is not None:
            return partition_of(key, self._count)
        if self._left_bytes <= 0:
            self._sticky = (self._sticky + 1) % self._count
            self._left_bytes = STICKY_BYTES
        self._left_bytes -= size_bytes
        return self._sticky
