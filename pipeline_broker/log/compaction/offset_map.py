"""Key -> latest offset, for the dirty part of a log, within a budget of memory.

Rules of this file: it knows neither records nor batches. What is kept of a key takes at most 16 bytes: a shorter key
is kept as it is, a longer one as a digest that nobody can find a second key for (BLAKE2b, 128 bits). The lengths tell
the two apart. Two keys that were taken for one would cost a record, so nothing weaker will do.
"""

from hashlib import blake2b

DIGEST_BYTES = 16
DEDUPE_BUFFER_BYTES_DEFAULT = 128 << 20
"""As log.cleaner.dedupe.buffer.size; Kafka's table takes 24 bytes an entry and is filled to 90 %: 5,033,164 keys."""
ENTRY_BYTES = 204
"""What a key takes here at worst (CPython 3.11): 49 + 32 in objects, which are 64 + 32 as allocated, and 30 to 60 in a
dict, besides up to 60 of the table before while it grows. Measured as resident memory: 143 to 203. The default buffer
is thus 657,930 keys; a log with more takes several rounds, of which each rewrites what the ones before it left."""


class OffsetMap:
    """The latest offset of each key; the owner of a loop over records may use `offsets` with `slot` inlined."""

    __slots__ = ("capacity", "latest_offset", "offsets")

    def __init__(self, buffer_bytes: int = DEDUPE_BUFFER_BYTES_DEFAULT) -> None:
        self.capacity = buffer_bytes // ENTRY_BYTES
        assert self.capacity > 0, "a map that holds no key would never make progress"
        self.offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """Up to here every record was looked at."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def is_full(self) -> bool:
        """Nothing more may be put."""
        return len(self.offsets) >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        """This is the key's latest offset so far."""
        assert not self.is_full, "a full map ends the round"
        self.offsets[slot(key)] = offset
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """The latest offset of the key; -1 when it is not here."""
        return self.offsets.get(slot(key), -1)


def slot(key: bytes) -> bytes:
    """What is kept of a key."""
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()
