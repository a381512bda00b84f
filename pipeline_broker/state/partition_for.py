"""Placement of groups and transactional ids in the partitions of an internal topic."""

from __future__ import annotations

import struct

__all__ = ["partition_for"]


def partition_for(subject: str, partitions: int) -> int:
    """Return the partition that holds a group or a transactional id: `abs(subject.hashCode()) % partitions`."""
    # Java hashes UTF-16 code units, so characters outside the BMP count as two.
    units = subject.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    # Java's Math.abs(Integer.MIN_VALUE) is negative; Kafka's Utils.abs returns 0 for it.
    return min(value, (1 << 32) - value) % (1 << 31) % partitions
