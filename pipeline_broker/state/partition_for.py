"""In which partition of an internal topic a coordinator keeps a subject."""

from __future__ import annotations

import struct

__all__ = ["partition_for"]


def partition_for(subject: str, partitions: int) -> int:
    """The partition that holds a group or a transactional id: Java's string hash, as Kafka places it."""
    units = subject.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    # Java's abs(int) of the smallest int is itself; Kafka's own takes 0 for it
    return min(value, (1 << 32) - value) % (1 << 31) % partitions
