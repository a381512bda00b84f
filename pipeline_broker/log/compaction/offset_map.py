"""Key -> latest offset, for the dirty part of a log, within a budget of memory.

Rules of this file: it knows neither records nor batches. What is kept of a key is 16 bytes: a key of up to 15 bytes as
it is, filled up, with its length as the last byte; of a longer one a digest of 15 bytes that nobody can find a second
key for (BLAKE2b) and a last byte that is no such length. Two keys that were taken for one would cost a record, so
nothing weaker will do.

The table is made at once, in pieces so small that making one holds up no other thread: buckets of so many places that
nearly all keys find room in the one that their hash names; the others go on to the next one that has room. A bucket is
searched by one `find` over the part of it that is taken, which costs less than looking at two places one by one.
Kafka's table takes 24 bytes a place as well.
"""

from array import array
from hashlib import blake2b

DIGEST_BYTES = 15
SLOT_BYTES = 16
DEDUPE_BUFFER_BYTES_DEFAULT = 128 << 20
"""As log.cleaner.dedupe.buffer.size: 5,029,862 keys; 5,033,164 in Apache Kafka."""
BUCKET_PLACES = 64
BUCKET_BYTES = BUCKET_PLACES * SLOT_BYTES
_PIECE_SHIFT = 9
PIECE_BUCKETS = 1 << _PIECE_SHIFT
_IN_PIECE = PIECE_BUCKETS - 1
_BUCKET_COST_BYTES = BUCKET_PLACES * (SLOT_BYTES + 8) + 1
LOAD_PERCENT_MAX = 90
"""As log.cleaner.io.buffer.load.factor."""
_PADDING = tuple(bytes(DIGEST_BYTES - length) + bytes([length]) for length in range(SLOT_BYTES))
_DIGEST_MARK = b"\xff"
_UNALIGNED = SLOT_BYTES - 1

assert BUCKET_PLACES <= 255, "a byte counts what is taken of a bucket"
assert SLOT_BYTES & _UNALIGNED == 0, "places are found by a mask"


class OffsetMap:
    """The latest offset of each key.

    Args:
        buffer_bytes: what it may take.
        keys_max: how many keys there can be; where fewer than fit, it takes less memory.
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
        """Up to here every record was looked at."""
        self._buckets = buckets
        self._count = 0
        pieces = [min(PIECE_BUCKETS, buckets - first) for first in range(0, buckets, PIECE_BUCKETS)]
        self._slots = [bytearray(count * BUCKET_BYTES) for count in pieces]
        self._offsets = [array("q", (-1,)) * (count * BUCKET_PLACES) for count in pieces]
        self._taken = bytearray(buckets)  # places of each bucket, from its first on

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> bool:
        """This is the key's latest offset so far; false if the map is full: then not even a known key is put."""
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
        """The latest offset of the key; -1 when it is not here."""
        bucket, place = self._find(_slot(key))
        return -1 if place < 0 else self._offsets[bucket >> _PIECE_SHIFT][place // SLOT_BYTES]

    def _find(self, slot: bytes) -> tuple[int, int]:
        """The bucket of a slot and its place in the bucket's piece; a bucket with room and -1 when it is not here."""
        bucket = hash(slot) % self._buckets
        while True:
            slots, taken = self._slots[bucket >> _PIECE_SHIFT], self._taken[bucket]
            start = (bucket & _IN_PIECE) * BUCKET_BYTES
            end = start + taken * SLOT_BYTES
            place = slots.find(slot, start, end)
            while place & _UNALIGNED and place > 0:  # across two others
                place = slots.find(slot, place + 1, end)
            if place >= 0 or taken < BUCKET_PLACES:  # with less than all places taken the search ends
                return bucket, place
            bucket = (bucket + 1) % self._buckets


def _slot(key: bytes) -> bytes:
    """What is kept of a key."""
    if len(key) <= DIGEST_BYTES:
        return key + _PADDING[len(key)]
    return blake2b(key, digest_size=DIGEST_BYTES).digest() + _DIGEST_MARK
