"""A memory-bounded hash table from record keys to their latest offsets, like Kafka's SkimpyOffsetMap.

The table stores 16 bytes for a key. A key of up to 15 bytes is stored itself, padded, with its length as the last byte.
A longer key is stored as a 15-byte BLAKE2b digest with 255 as the last byte. Two keys with the same digest would cost a
record, so a weaker hash is not enough.

The table consists of buckets of 64 slots. A key is in the bucket that its hash names or, if that is full, in the next
one with a free slot. One `bytearray.find` searches the used part of a bucket, which is faster than comparing even two
slots in Python. The table is allocated in pieces, so small that no allocation blocks other threads.
"""

from array import array
from hashlib import blake2b

DIGEST_BYTES = 15
SLOT_BYTES = 16
DEDUPE_BUFFER_BYTES_DEFAULT = 128 << 20
"""Default of log.cleaner.dedupe.buffer.size: 5,029,862 keys, and 5,033,164 in Apache Kafka."""
BUCKET_PLACES = 64
BUCKET_BYTES = BUCKET_PLACES * SLOT_BYTES
_PIECE_SHIFT = 9
PIECE_BUCKETS = 1 << _PIECE_SHIFT
_IN_PIECE = PIECE_BUCKETS - 1
_BUCKET_COST_BYTES = BUCKET_PLACES * (SLOT_BYTES + 8) + 1
LOAD_PERCENT_MAX = 90
"""Default of log.cleaner.io.buffer.load.factor."""
_PADDING = tuple(bytes(DIGEST_BYTES - length) + bytes([length]) for length in range(SLOT_BYTES))
_DIGEST_MARK = b"\xff"
_UNALIGNED = SLOT_BYTES - 1

assert BUCKET_PLACES <= 255, "one byte counts the used slots of a bucket"
assert SLOT_BYTES & _UNALIGNED == 0, "the mask needs a power of two"


class OffsetMap:
    """The latest offset of each key.

    Args:
        buffer_bytes: memory limit.
        keys_max: upper bound on the number of keys. A low one makes the table smaller.

    Attributes:
        latest_offset: all records up to this offset were processed.
    """

    __slots__ = ("_buckets", "_count", "_offsets", "_slots", "_taken", "capacity", "latest_offset")

    def __init__(self, buffer_bytes: int = DEDUPE_BUFFER_BYTES_DEFAULT, keys_max: int | None = None) -> None:
        buckets = buffer_bytes // _BUCKET_COST_BYTES
        assert buckets > 0, "a map that holds no key would never make progress"
        self.capacity = buckets * BUCKET_PLACES * LOAD_PERCENT_MAX // 100
        if keys_max is not None and keys_max < self.capacity:
            self.capacity = keys_max
            buckets = 1 + keys_max * 100 // (LOAD_PERCENT_MAX * BUCKET_PLACES)
        self.latest_offset = -1
        self._buckets = buckets
        self._count = 0
        pieces = [min(PIECE_BUCKETS, buckets - first) for first in range(0, buckets, PIECE_BUCKETS)]
        self._slots = [bytearray(count * BUCKET_BYTES) for count in pieces]
        self._offsets = [array("q", (-1,)) * (count * BUCKET_PLACES) for count in pieces]
        self._taken = bytearray(buckets)  # used slots of each bucket, which are its first ones

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> bool:
        """Set the latest offset of a key; return False if the map is full.

        A full map refuses known keys too, because a round must know where its mapped range ends.
        """
        if self._count >= self.capacity:
            return False
        slot = _slot(key)
        bucket, place = self._find(slot)
        if place < 0:
            taken = self._taken[bucket]
            place = (bucket & _IN_PIECE) * BUCKET_BYTES + taken * SLOT_BYTES
            self._slots[bucket >> _PIECE_SHIFT][place : place + SLOT_BYTES] = slot
            self._taken[bucket] = taken + 1
            self._count += 1
        self._offsets[bucket >> _PIECE_SHIFT][place // SLOT_BYTES] = offset
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        bucket, place = self._find(_slot(key))
        return -1 if place < 0 else self._offsets[bucket >> _PIECE_SHIFT][place // SLOT_BYTES]

    def _find(self, slot: bytes) -> tuple[int, int]:
        """Return a slot's bucket and position in the piece; if it is missing, a bucket with a free slot and -1."""
        bucket = hash(slot) % self._buckets
        while True:
            slots, taken = self._slots[bucket >> _PIECE_SHIFT], self._taken[bucket]
            start = (bucket & _IN_PIECE) * BUCKET_BYTES
            end = start + taken * SLOT_BYTES
            place = slots.find(slot, start, end)
            while place & _UNALIGNED and place > 0:  # an accidental match across two slots
                place = slots.find(slot, place + 1, end)
            if place >= 0 or taken < BUCKET_PLACES:  # a key overflows to the next bucket only if its own is full
                return bucket, place
            bucket = (bucket + 1) % self._buckets


def _slot(key: bytes) -> bytes:
    if len(key) <= DIGEST_BYTES:
        return key + _PADDING[len(key)]
    return blake2b(key, digest_size=DIGEST_BYTES).digest() + _DIGEST_MARK
