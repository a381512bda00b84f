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
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed) % partitions
