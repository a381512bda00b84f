"""One segment of the archive: what is known of it, what its files are called, and its batches read one by one.

Rules of this file: what is durable, and counts, is what a SegmentInfo says; bytes of a file behind `size_bytes` are
never looked at. No batch leaves here unverified: its length, its checksum, that its offsets follow or stand in the
index, and the leader epoch, which no checksum covers, are held against what was written.
"""

import re
from collections.abc import Callable, Iterator

import attrs

from pipeline_broker.log.archive.index_files import POSITION_MAX, IndexBuilder, IndexState
from pipeline_broker.log.archive.segment_index import SegmentIndex
from pipeline_broker.log.archive.store import SegmentStore
from pipeline_broker.log.errors import DamagedIndexError, DamagedSegment
from pipeline_broker.log.journal.entry import LEADER_EPOCH, Buffer
from pipeline_broker.log.segments.log_segment import NO_TIMESTAMP, LogSegment
from pipeline_broker.records.batch import CHECKED_FROM, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader
from pipeline_broker.records.checksum import crc32c

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
WINDOW_BYTES = 1 << 20  # of a segment are in memory while its batches are read one by one, or a single larger batch

_NAME = re.compile(r"([0-9]{20})(\.[1-9][0-9]*)?(\.log|\.index|\.timeindex|\.txnindex)")
_FOLDER = re.compile(r"[A-Za-z0-9._-]+-[0-9]+")
_BATCH_LENGTH_MIN = HEADER_SIZE - LENGTH_OVERHEAD
_NO_NAME = (POSITION_MAX + 1, -1)
_NEW = tuple.__new__  # straight to the tuple's constructor, for every batch


#: name, size in bytes, position -> the bytes, or None when they are not in memory.
Fetch = Callable[[str, int, int], Buffer | None]


class NotInMemory(Exception):
    """A thread that may wait must do it."""


@attrs.frozen
class SegmentInfo:
    """What a manifest keeps of a segment; there is none without a batch.

    Attributes:
        base_offset: names the files; no record has a lower offset, after compaction perhaps none has this one.
        last_offset: of the last batch.
        size_bytes: of the batches, that is, of the log file as far as it counts.
        max_timestamp: the largest of all batches.
        first_timestamp: the largest of the first batch: from it Kafka counts how old a segment is.
        is_sealed: nothing is added any more.
        indexes: tells the two index files from damaged ones; None when nobody knows: they are then made anew.
        generation: tells contents apart that have the same name one after the other (a compacted segment, a topic
            made again): a number that its name has never had before.
        modified_ms: when it was last written to; stands in where records have no timestamps.
        cleanings: how often this stretch of the log was compacted: each writes files of its own, so that the manifest
            alone decides which of them count. They have the number in their names behind the base offset.
        aborted_bytes: how long the index of transactions that were aborted here is; most segments have none.
        aborted_crc: its CRC-32C.
    """

    base_offset: int
    last_offset: int
    size_bytes: int
    max_timestamp: int
    first_timestamp: int
    is_sealed: bool = False
    indexes: IndexState | None = None
    generation: int = 0
    modified_ms: int = NO_TIMESTAMP
    cleanings: int = 0
    aborted_bytes: int = 0
    aborted_crc: int = 0

    @classmethod
    def written(
        cls,
        builder: IndexBuilder,
        before: "SegmentInfo | None" = None,
        *,
        is_sealed: bool = False,
        generation: int = 0,
        modified_ms: int = NO_TIMESTAMP,
        cleanings: int = 0,
    ) -> "SegmentInfo":
        """As it is when all that the builder was told and gave is written; `before` is the same segment earlier."""
        assert builder.size_bytes, "a segment has a batch"
        return cls(
            base_offset=builder.base_offset,
            last_offset=builder.last_offset,
            size_bytes=builder.size_bytes,
            max_timestamp=builder.max_timestamp,
            first_timestamp=builder.first_timestamp if before is None else before.first_timestamp,
            is_sealed=is_sealed,
            indexes=builder.state,
            generation=generation if before is None else before.generation,
            modified_ms=modified_ms,
            cleanings=cleanings if before is None else before.cleanings,
        )

    @property
    def facts(self) -> LogSegment:
        """What decisions about it need."""
        return LogSegment(
            base_offset=self.base_offset,
            last_offset=self.last_offset,
            size_bytes=self.size_bytes,
            first_timestamp=self.first_timestamp,
            max_timestamp=self.max_timestamp,
            modified_ms=self.modified_ms,
            is_sealed=self.is_sealed,
        )


def log_name(folder: str, base_offset: int, cleanings: int = 0) -> str:
    """The file of the batches."""
    return _name(folder, base_offset, cleanings, LOG_SUFFIX)


def offset_index_name(folder: str, base_offset: int, cleanings: int = 0) -> str:
    """The file of the offset index."""
    return _name(folder, base_offset, cleanings, OFFSET_INDEX_SUFFIX)


def time_index_name(folder: str, base_offset: int, cleanings: int = 0) -> str:
    """The file of the time index."""
    return _name(folder, base_offset, cleanings, TIME_INDEX_SUFFIX)


def _name(folder: str, base_offset: int, cleanings: int, suffix: str) -> str:
    return f"{folder}/{base_offset:020d}{f'.{cleanings}' if cleanings else ''}{suffix}"


def file_names(folder: str, base_offset: int, cleanings: int = 0) -> tuple[str, str, str]:
    """The files that every segment has, the batches first."""
    return (
        log_name(folder, base_offset, cleanings),
        offset_index_name(folder, base_offset, cleanings),
        time_index_name(folder, base_offset, cleanings),
    )


def transaction_index_name(folder: str, base_offset: int, cleanings: int = 0) -> str:
    """The file of the aborted transactions, where there are any."""
    return _name(folder, base_offset, cleanings, TRANSACTION_INDEX_SUFFIX)


def counted_names(folder: str, segment: SegmentInfo) -> tuple[str, ...]:
    """All files that a segment has."""
    place = folder, segment.base_offset, segment.cleanings
    return (*file_names(*place), transaction_index_name(*place)) if segment.aborted_bytes else file_names(*place)


def parse_file_name(file: str) -> tuple[int, str] | None:
    """Base offset and suffix; None when it is no file of a segment."""
    match = _NAME.fullmatch(file)
    return (int(match[1]), match[3]) if match else None


def is_folder(name: str) -> bool:
    """Return whether a folder has the name of a partition's."""
    return _FOLDER.fullmatch(name) is not None


def verified_batches(
    view: memoryview, position: int, segment: SegmentInfo, folder: str, expected: int | None, index: SegmentIndex | None
) -> Iterator[tuple[BatchHeader, int, int]]:
    """The batches in a piece of the file that begins at `position`: header, start and end in the piece.

    A batch that the piece cuts off is left out. `expected` is the first batch's base offset, None when it is not
    known. Without an index skipped offsets are believed, unless it is recorded that there are none.
    """
    start, size, end_max = 0, len(view), segment.size_bytes - position
    may_skip = index is None and (segment.indexes is None or segment.indexes.skips > 0)
    names = iter(()) if index is None else index.names(position)
    named_position, named_offset = next(names, _NO_NAME)
    while size - start >= HEADER_SIZE:
        header = _NEW(BatchHeader, HEADER.unpack_from(view, start))
        base_offset, length, leader_epoch, magic, crc, _, last_delta, _, _, _, _, _, _ = header
        end, last_offset, follows = start + LENGTH_OVERHEAD + length, base_offset + last_delta, base_offset == expected
        if position + start == named_position:
            is_in_place = last_offset == named_offset
            named_position, named_offset = next(names, _NO_NAME)
        else:
            is_in_place = follows or expected is None or may_skip
        reason = ""
        if magic != MAGIC or length < _BATCH_LENGTH_MIN or end > end_max or position + end > named_position:
            reason = "there is no batch"
        elif end > size:
            return
        elif crc32c(view[start + CHECKED_FROM : end]) != crc:
            reason = "the checksum of the batch is wrong"
        elif leader_epoch != LEADER_EPOCH or last_delta < 0 or last_offset > segment.last_offset:
            reason = "the batch cannot be of this segment"
        elif not is_in_place or base_offset < (segment.base_offset if expected is None else expected):
            reason = f"the batch has offset {base_offset}"
        if reason:
            name = log_name(folder, segment.base_offset, segment.cleanings)
            raise DamagedSegment(name, position + start, -1 if expected is None else expected, reason)
        yield header, start, end
        expected = last_offset + 1
        start = end


def read_batches(
    store: SegmentStore, folder: str, segment: SegmentInfo, position: int = 0, index: SegmentIndex | None = None
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """All batches from the one at `position` on; raises DamagedSegment in place of the first that is not as written."""
    name = log_name(folder, segment.base_offset, segment.cleanings)
    expected = None if position else segment.base_offset
    while position < segment.size_bytes:
        size = min(WINDOW_BYTES, segment.size_bytes - position)
        view = fetched(store.read, name, size, position)
        if len(view) == WINDOW_BYTES and _is_large(view, segment.size_bytes - position):
            view = _read_large_batch(store, name, view, position)
        done = 0
        for header, start, end in verified_batches(view, position, segment, folder, expected, index):
            yield header, view[start:end]
            done, expected = end, header.last_offset + 1
        if not done:
            raise not_whole(name, position, expected, is_short=len(view) < size)
        position += done
    if expected is not None and expected != segment.last_offset + 1:
        raise DamagedSegment(name, position, expected, "the last batches are missing")


def fetched(fetch: Fetch, name: str, size_bytes: int, position: int) -> memoryview:
    """The bytes, fewer where the file ends too early; raises NotInMemory when they cannot be had without waiting."""
    data = fetch(name, size_bytes, position)
    if data is None:
        raise NotInMemory
    return memoryview(data)


def not_whole(name: str, position: int, expected: int | None, *, is_short: bool) -> DamagedSegment:
    """What is wrong where a batch should be and is not."""
    reason = "the file ends here" if is_short else "there is no whole batch"
    return DamagedSegment(name, position, -1 if expected is None else expected, reason)


def _is_large(view: memoryview, size_max: int) -> bool:
    """Whether a window holds but the beginning of one batch, that is, if its length is right."""
    return len(view) < _NEW(BatchHeader, HEADER.unpack_from(view)).size_bytes <= size_max


def _read_large_batch(store: SegmentStore, name: str, view: memoryview, position: int) -> memoryview:
    """The whole batch of which `view` is the beginning; memory is spent on it only when its checksum is right."""
    header = _NEW(BatchHeader, HEADER.unpack_from(view))
    crc, end = crc32c(view[CHECKED_FROM:]), position + header.size_bytes
    for start in range(position + len(view), end, WINDOW_BYTES):
        crc = crc32c(fetched(store.read, name, min(WINDOW_BYTES, end - start), start), crc)
    return fetched(store.read, name, header.size_bytes, position) if crc == header.crc else view


def read_index_files(
    store: SegmentStore, folder: str, segment: SegmentInfo, start: IndexState, end: IndexState
) -> tuple[bytes, bytes]:
    """What the files hold from one state to the other; a file of which that is nothing need not be there."""
    _, offset_name, time_name = file_names(folder, segment.base_offset, segment.cleanings)
    offset_size = end.offset_index_bytes - start.offset_index_bytes
    time_size = end.time_index_bytes - start.time_index_bytes
    return (
        bytes(store.read(offset_name, offset_size, start.offset_index_bytes)) if offset_size else b"",
        bytes(store.read(time_name, time_size, start.time_index_bytes)) if time_size else b"",
    )


def resumed_builder(store: SegmentStore, folder: str, segment: SegmentInfo) -> IndexBuilder:
    """A builder that goes on where an unsealed segment ends; what `take` then gives continues the index files.

    When these are not as they were written it gives both whole, made from the batches. Raises DamagedSegment.
    """
    assert not segment.is_sealed, "nothing is added to a sealed segment"
    try:
        return _resumed_from_files(store, folder, segment)
    except (DamagedIndexError, FileNotFoundError):
        builder, damage = rebuilt_index(store, folder, segment)
    if damage is not None:
        raise damage
    return builder


def _resumed_from_files(store: SegmentStore, folder: str, segment: SegmentInfo) -> IndexBuilder:
    if segment.indexes is None:
        raise DamagedIndexError("nobody knows what the index files were")
    files = read_index_files(store, folder, segment, IndexState(), segment.indexes)
    builder = IndexBuilder.resume(segment.base_offset, segment.indexes, *files)
    for header, batch in read_batches(store, folder, segment, builder.size_bytes):
        builder.add(header.base_offset, header.last_offset, len(batch), header.max_timestamp)
    if builder.next_state() != segment.indexes:
        raise DamagedIndexError("batches behind the last entry are not named as they should be")
    return builder


class IndexRebuild:
    """Makes the indexes of a segment anew while its batches come by, the first one first.

    Offsets that were skipped when the segment was written can only be told from damaged ones by the recorded state.
    When that is another one nothing is believed; when there is none, and there is damage, what precedes the first skip.
    """

    def __init__(self, folder: str, segment: SegmentInfo) -> None:
        self.builder = IndexBuilder(segment.base_offset)
        self._folder = folder
        self._segment = segment
        self._first_skip: tuple[int, int] | None = None

    def add(self, header: BatchHeader, size_bytes: int) -> None:
        """A batch follows."""
        builder = self.builder
        if self._first_skip is None and header.base_offset != builder.last_offset + 1:
            self._first_skip = builder.size_bytes, builder.last_offset + 1
        builder.add(header.base_offset, header.last_offset, size_bytes, header.max_timestamp)

    def finish(self, damage: DamagedSegment | None) -> DamagedSegment | None:
        """There are no more batches, or damage where the next one should be; what is wrong with the segment."""
        segment = self._segment
        if segment.is_sealed:
            self.builder.seal()
        recorded, first_skip = segment.indexes, self._first_skip
        if recorded is not None:
            is_other = recorded.skips and recorded != self.builder.next_state()
            first_skip = (0, segment.base_offset) if is_other else None
        elif damage is None:
            first_skip = None
        if first_skip is None:
            return damage
        reason = "offsets are missing that were there" if damage is None else damage.reason
        return DamagedSegment(log_name(self._folder, segment.base_offset, segment.cleanings), *first_skip, reason)


def rebuilt_index(store: SegmentStore, folder: str, segment: SegmentInfo) -> tuple[IndexBuilder, DamagedSegment | None]:
    """The indexes made anew from the batches, as far as these are readable, and what is wrong with the others."""
    rebuild, damage = IndexRebuild(folder, segment), None
    try:
        for header, batch in read_batches(store, folder, segment):
            rebuild.add(header, len(batch))
    except DamagedSegment as found:
        damage = found
    return rebuild.builder, rebuild.finish(damage)
