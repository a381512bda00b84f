"""Kafka's default choice of a partition by key.

Rules of this file: the 32-bit hash murmur2 with Kafka's seed, so that a key lands in the partition where Java producers
put it.
"""

SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as an unsigned number."""
    length = len(data)
    hashed = SEED ^ length
    body_end = length & ~3
    for position in range(0, body_end, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word ^= word >> 24
        hashed = (hashed * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    tail = data[body_end:]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key: the hash without its sign bit, modulo the number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
