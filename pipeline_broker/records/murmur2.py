"""Kafka's default partitioner: murmur2 with Kafka's seed, so keys go to the same partitions as with Java producers."""

from struct import unpack_from

SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    length = len(data)
    hashed = SEED ^ length
    for word in unpack_from(f"<{length >> 2}I", data):
        mixed = word * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER ^ (mixed ^ mixed >> 24) * _MULTIPLIER) & _MASK
    if left := length & 3:
        hashed = (hashed ^ int.from_bytes(data[-left:], "little")) * _MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key: the hash without its sign bit, modulo the number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
