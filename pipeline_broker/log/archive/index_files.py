"""Kafka's sparse index files of a segment, `.index` and `.timeindex`: encoding and decoding.

Apache Kafka can read these files. As in Kafka, a batch gets an entry if more than INDEX_INTERVAL_BYTES lie between the
last entry and its start. The same batches always give the same files, so an index can be checked by its checksum and
rebuilt at any time.

One rule is added: a batch that does not begin at the offset after its predecessor has an entry too. (Compaction removed
the offsets between them.) The base offset lies outside the checksum of a batch. With this rule it either follows its
predecessor or is in the index, so damage to it is always found.

Layout (big-endian). An entry of `.index`: the last offset of a batch relative to the segment's base offset (4 bytes),
and the position of the batch (4 bytes). An entry of `.timeindex`: the largest timestamp so far (8 bytes), and the
relative last offset of its batch (4 bytes). A time entry is added together with an offset entry if the largest
timestamp has grown, and once when the segment is sealed.
"""

import struct
import sys
from array import array
from collections.abc import Iterator
from itertools import islice
from operator import lt
from typing import NamedTuple

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.errors import DamagedIndexError
from pipeline_broker.records.checksum import crc32c

INDEX_INTERVAL_BYTES = 4096  # index.interval.bytes
INDEX_SIZE_MAX = 10 << 20  # segment.index.bytes, of each of the two
RELATIVE_OFFSET_MAX = POSITION_MAX = (1 << 31) - 1
NO_TIMESTAMP = -1

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
_INT32 = "i"

assert array(_INT32).itemsize == 4


class IndexState(NamedTuple):
    """Counted sizes and CRC-32Cs of the two index files of a segment.

    `skips` counts the batches that do not begin at the offset after their predecessor. With 0, all batches must be
    contiguous.
    """

    offset_index_bytes: int = 0
    offset_index_crc: int = 0
    time_index_bytes: int = 0
    time_index_crc: int = 0
    skips: int = 0


class IndexEntries(NamedTuple):
    offset_entries: bytes
    offset_position: int
    time_entries: bytes
    time_position: int


class IndexBuilder:
    """The indexes of a segment under construction, with its size, offsets and timestamps so far."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.last_offset = base_offset - 1
        self.size_bytes = 0
        self.first_timestamp: int  # largest timestamp of the first batch; unset after `resume`
        self.max_timestamp = NO_TIMESTAMP
        self.state = IndexState()  # of the entries returned by `take` so far
        self._max_timestamp_offset: int  # set when `max_timestamp` grows
        self._entry_position = 0
        self._entry_timestamp = NO_TIMESTAMP
        self._skips = 0
        self._named_offset: int | None = None  # after `resume`: last offset that the first added batch must have
        self._offset_entries = bytearray()
        self._time_entries = bytearray()

    @classmethod
    def resume(cls, base_offset: int, state: IndexState, offset_index: Buffer, time_index: Buffer) -> "IndexBuilder":
        """Continue the index files of an unsealed segment.

        The caller must add the batches from `size_bytes` again: the files say nothing about batches after the last
        entry.

        Raises:
            DamagedIndexError: the files do not match `state`.
        """
        check_state(state, offset_index, time_index)
        builder = cls(base_offset)
        builder.state, builder._skips = state, state.skips
        offsets = list(OFFSET_ENTRY.iter_unpack(offset_index))
        times = list(TIME_ENTRY.iter_unpack(time_index))
        if offsets:
            relative, builder.size_bytes = offsets[-1]
            builder._entry_position = builder.size_bytes
            builder._named_offset = base_offset + relative
        if times:
            builder.max_timestamp = builder._entry_timestamp = times[-1][0]
        return builder

    def can_add(self, last_offset: int, size_bytes: int) -> bool:
        """Return whether a batch fits: into the int32 fields of an entry, and into the maximum index size."""
        return (
            last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
            and self.size_bytes + size_bytes <= POSITION_MAX
            and self.state.offset_index_bytes + len(self._offset_entries) + OFFSET_ENTRY.size <= INDEX_SIZE_MAX
            # One time entry is reserved for `seal`.
            and self.state.time_index_bytes + len(self._time_entries) + 2 * TIME_ENTRY.size <= INDEX_SIZE_MAX
        )

    def add(self, base_offset: int, last_offset: int, size_bytes: int, max_timestamp: int) -> None:
        """Add a batch.

        Raises:
            DamagedIndexError: the first batch after `resume` is not the one that the index names.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if self.size_bytes == 0:
            self.first_timestamp = max_timestamp
        if self._named_offset is not None:
            if last_offset != self._named_offset:
                raise DamagedIndexError(f"offset {self._named_offset} is not at byte {self.size_bytes}")
            self._named_offset = None
        elif self.size_bytes - self._entry_position > INDEX_INTERVAL_BYTES or base_offset != self.last_offset + 1:
            self._skips += base_offset != self.last_offset + 1
            assert self.can_add(last_offset, size_bytes), "the caller must roll the segment before this batch"
            self._offset_entries += OFFSET_ENTRY.pack(last_offset - self.base_offset, self.size_bytes)
            self._add_time()
            self._entry_position = self.size_bytes
        self.last_offset = last_offset
        self.size_bytes += size_bytes

    def _add_time(self) -> None:
        if self.max_timestamp > self._entry_timestamp:
            self._entry_timestamp = self.max_timestamp
            self._time_entries += TIME_ENTRY.pack(self.max_timestamp, self._max_timestamp_offset - self.base_offset)

    def seal(self) -> None:
        self._add_time()

    def next_state(self) -> IndexState:
        return _state_after(self.state, self._offset_entries, self._time_entries, self._skips)

    def take(self) -> IndexEntries:
        """Return the entries since the last call. Once they are written, the files match `state`."""
        state, self.state = self.state, self.next_state()
        taken = IndexEntries(
            bytes(self._offset_entries), state.offset_index_bytes, bytes(self._time_entries), state.time_index_bytes
        )
        self._offset_entries.clear()
        self._time_entries.clear()
        return taken


def _state_after(state: IndexState, offset_entries: Buffer, time_entries: Buffer, skips: int) -> IndexState:
    return IndexState(
        state.offset_index_bytes + len(offset_entries),
        crc32c(offset_entries, state.offset_index_crc),
        state.time_index_bytes + len(time_entries),
        crc32c(time_entries, state.time_index_crc),
        skips,
    )


def check_state(state: IndexState, offset_index: Buffer, time_index: Buffer, before: IndexState | None = None) -> None:
    """Raise DamagedIndexError unless these bytes lead from the state `before` to `state`."""
    found = _state_after(IndexState() if before is None else before, offset_index, time_index, state.skips)
    if found != state:
        raise DamagedIndexError(f"the index files do not match the manifest: found {found}, expected {state}")


def parse_offset_index(
    data: Buffer, offset_max: int, position_max: int, after: tuple[int, int] = (-1, -1)
) -> tuple["array[int]", "array[int]"]:
    """Decode appended entries of an offset index; return their relative last offsets and their positions.

    Args:
        data: the entries.
        offset_max, position_max: inclusive limits of the relative offsets and positions.
        after: relative last offset and position of the entry before `data`.

    Raises:
        DamagedIndexError: an entry is incomplete, out of order or above a limit.
    """
    if len(data) % OFFSET_ENTRY.size:
        raise DamagedIndexError(f"{len(data)} bytes are not whole entries of {OFFSET_ENTRY.size}")
    numbers = array(_INT32)
    numbers.frombytes(data)
    if sys.byteorder == "little":
        numbers.byteswap()
    offsets, positions = numbers[0::2], numbers[1::2]
    _check_growth("offset", offsets, after[0], offset_max)
    _check_growth("position", positions, after[1], position_max)
    return offsets, positions


def parse_time_index(
    data: Buffer, offset_max: int, timestamp_max: int, after: tuple[int, int] = (NO_TIMESTAMP, -1)
) -> tuple["array[int]", "array[int]"]:
    """Decode appended entries of a time index; return their timestamps and their relative offsets.

    Args:
        data: the entries.
        offset_max, timestamp_max: inclusive limits of the relative offsets and timestamps.
        after: timestamp and relative offset of the entry before `data`.

    Raises:
        DamagedIndexError: an entry is incomplete, out of order or above a limit.
    """
    if len(data) % TIME_ENTRY.size:
        raise DamagedIndexError(f"{len(data)} bytes are not whole entries of {TIME_ENTRY.size}")
    entries: Iterator[tuple[int, int]] = TIME_ENTRY.iter_unpack(data)
    columns = list(zip(*entries, strict=True)) or [(), ()]
    timestamps, offsets = array("q", columns[0]), array(_INT32, columns[1])
    _check_growth("timestamp", timestamps, after[0], timestamp_max)
    _check_growth("offset", offsets, after[1], offset_max)
    return timestamps, offsets


def _check_growth(what: str, numbers: "array[int]", above: int, number_max: int) -> None:
    if not numbers:
        return
    if numbers[0] <= above or numbers[-1] > number_max or not all(map(lt, numbers, islice(numbers, 1, None))):
        raise DamagedIndexError(
            f"the {what}s of the entries do not increase from above {above} to at most {number_max}"
        )
