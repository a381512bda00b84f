"""Segment files of the archive: their metadata, their names, verified reading and the rebuilding of indexes.

Counterpart in Kafka: `LogSegment`, `OffsetIndex`, `TimeIndex`; these files are the archive, to which the journal is
copied.
"""

import re
from collections.abc import Callable, Iterator

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.index_files import POSITION_MAX, IndexBuilder, IndexState
from pipeline_broker.log.archive.segment_index import SegmentIndex
from pipeline_broker.log.archive.store import SegmentStore
from pipeline_broker.log.errors import DamagedIndexError, DamagedSegment
from pipeline_broker.log.leader_epochs import FIRST_EPOCH, LeaderEpochs
from pipeline_broker.log.segments.log_segment import NO_TIMESTAMP, LogSegment
from pipeline_broker.records.batch import CHECKED_FROM, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader
from pipeline_broker.records.checksum import crc32c

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
WINDOW_BYTES = 1 << 20  # of a segment in memory while its batches are read in sequence; or a single larger batch

_NAME = re.compile(r"([0-9]{20})(\.[1-9][0-9]*)?(\.log|\.index|\.timeindex|\.txnindex)")
_FOLDER = re.compile(r"[A-Za-z0-9._-]+-[0-9]+")
_BATCH_LENGTH_MIN = HEADER_SIZE - LENGTH_OVERHEAD
_NO_NAME = (POSITION_MAX + 1, -1)
_NEW = tuple.__new__  # faster than calling the NamedTuple; used for every batch


#: Takes name, size in bytes and position. Returns the bytes, or None if they are not in memory.
Fetch = Callable[[str, int, int], Buffer | None]


class NotInMemory(Exception):
    """Bytes that are not in memory. A thread that may wait must read them."""


@attrs.frozen
class SegmentInfo:
    """The manifest's metadata of one segment, which has at least one batch.

    Bytes of its files beyond these sizes do not count.

    Attributes:
        base_offset: names the files. All records are at or above it; after compaction, perhaps none is at it.
        last_offset: offset of the last batch.
        size_bytes: counted size of the log file.
        max_timestamp: the largest of all batches.
        first_timestamp: the largest timestamp of the first batch. Kafka counts the age of a segment from it.
        is_sealed: whether nothing is appended any more.
        indexes: sizes and checksums of the two index files; None if unknown, and then they are rebuilt.
        generation: distinguishes contents that had the same name at different times (after compaction, or if a topic
            was deleted and created again). Never reused for a name.
        modified_ms: time of the last write; replaces `max_timestamp` if the records have no timestamps.
        cleanings: number of compactions of this part of the log. Each compaction writes new files with this number in
            their names, so that the manifest alone decides which files count.
        aborted_bytes: size of the index of aborted transactions; 0 for most segments.
        aborted_crc: CRC-32C of that index.
        epochs: leader epochs of its offsets. The manifest has them once for the partition.
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
    epochs: LeaderEpochs = attrs.field(default=FIRST_EPOCH, eq=False)

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
        epochs: LeaderEpochs = FIRST_EPOCH,
    ) -> "SegmentInfo":
        """Return the metadata of a segment once everything the builder has seen is written.

        `before` is the metadata of the same segment at an earlier time, if it was resumed.
        """
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
            epochs=epochs,
        )

    @property
    def facts(self) -> LogSegment:
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
    return _name(folder, base_offset, cleanings, LOG_SUFFIX)


def offset_index_name(folder: str, base_offset: int, cleanings: int = 0) -> str:
    return _name(folder, base_offset, cleanings, OFFSET_INDEX_SUFFIX)


def time_index_name(folder: str, base_offset: int, cleanings: int = 0) -> str:
    return _name(folder, base_offset, cleanings, TIME_INDEX_SUFFIX)


def _name(folder: str, base_offset: int, cleanings: int, suffix: str) -> str:
    return f"{folder}/{base_offset:020d}{f'.{cleanings}' if cleanings else ''}{suffix}"


def file_names(folder: str, base_offset: int, cleanings: int = 0) -> tuple[str, str, str]:
    """Return the names of the three files of every segment: log, offset index, time index."""
    return (
        log_name(folder, base_offset, cleanings),
        offset_index_name(folder, base_offset, cleanings),
        time_index_name(folder, base_offset, cleanings),
    )


def transaction_index_name(folder: str, base_offset: int, cleanings: int = 0) -> str:
    """Return the name of the index of aborted transactions. The file exists only if there are any."""
    return _name(folder, base_offset, cleanings, TRANSACTION_INDEX_SUFFIX)


def counted_names(folder: str, segment: SegmentInfo) -> tuple[str, ...]:
    place = folder, segment.base_offset, segment.cleanings
    return (*file_names(*place), transaction_index_name(*place)) if segment.aborted_bytes else file_names(*place)


def parse_file_name(file: str) -> tuple[int, str] | None:
    """Return base offset and suffix; None if the name is not that of a segment file."""
    match = _NAME.fullmatch(file)
    return (int(match[1]), match[3]) if match else None


def is_folder(name: str) -> bool:
    """Return whether a name has the form of a partition folder, `<topic>-<partition>`."""
    return _FOLDER.fullmatch(name) is not None


def verified_batches(
    view: memoryview, position: int, segment: SegmentInfo, folder: str, expected: int | None, index: SegmentIndex | None
) -> Iterator[tuple[BatchHeader, int, int]]:
    """Yield each batch of a piece of the log file: its header, and its start and end within `view`.

    An incomplete last batch is omitted.

    Fields that the checksum does not cover are verified too. Base offsets must be contiguous or named by the index, and
    the leader epoch must be that of the offset.

    Args:
        view: the piece.
        position: start of the piece in the log file.
        segment: its metadata.
        folder: for error messages.
        expected: base offset of the first batch; None if unknown.
        index: names the batches after skipped offsets. Without it skips are accepted, unless the metadata counts none.

    Raises:
        DamagedSegment: a batch is damaged.
    """
    start, size, end_max = 0, len(view), segment.size_bytes - position
    epoch_at = segment.epochs.epoch_at
    may_skip = index is None and (segment.indexes is None or segment.indexes.skips > 0)
    names = iter(()) if index is None else index.names(position)
    named_position, named_offset = next(names, _NO_NAME)
    while size - start >= HEADER_SIZE:
        header = _NEW(BatchHeader, HEADER.unpack_from(view, start))
        base_offset, length, leader_epoch, magic, crc, _, last_delta, _, _, _, _, _, _ = header
        end, last_offset, follows = start + LENGTH_OVERHEAD + length, base_offset + last_delta, base_offset == expected
        # Offsets may be skipped before an indexed batch. Its last offset is then verified by the index.
        if position + start == named_position:
            is_in_place = last_offset == named_offset
            named_position, named_offset = next(names, _NO_NAME)
        else:
            is_in_place = follows or expected is None or may_skip
        reason = ""
        if magic != MAGIC or length < _BATCH_LENGTH_MIN or end > end_max or position + end > named_position:
            reason = "no batch begins here"
        elif end > size:
            return
        elif crc32c(view[start + CHECKED_FROM : end]) != crc:
            reason = "the checksum of the batch is wrong"
        elif leader_epoch != epoch_at(base_offset) or last_delta < 0 or last_offset > segment.last_offset:
            reason = "the batch does not belong to this segment"
        elif not is_in_place or base_offset < (segment.base_offset if expected is None else expected):
            reason = f"the batch has the unexpected offset {base_offset}"
        if reason:
            name = log_name(folder, segment.base_offset, segment.cleanings)
            raise DamagedSegment(name, position + start, -1 if expected is None else expected, reason)
        yield header, start, end
        expected = last_offset + 1
        start = end


def read_batches(
    store: SegmentStore, folder: str, segment: SegmentInfo, position: int = 0, index: SegmentIndex | None = None
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield all batches, with their headers, from the one at `position`. Blocks.

    Args:
        position: start of a batch in the log file.
        index: see `verified_batches`.

    Raises:
        DamagedSegment: instead of the first damaged batch.
        FileNotFoundError: the log file is missing.
    """
    name = log_name(folder, segment.base_offset, segment.cleanings)
    # In the middle of a segment, the base offset of the next batch is unknown.
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
    # A file truncated at a batch boundary has intact batches only, so the last offset is verified too.
    if expected is not None and expected != segment.last_offset + 1:
        raise DamagedSegment(name, position, expected, "the last batches are missing")


def fetched(fetch: Fetch, name: str, size_bytes: int, position: int) -> memoryview:
    """Return the bytes, fewer if the file is too short.

    Raises:
        NotInMemory: the bytes cannot be read without waiting.
    """
    data = fetch(name, size_bytes, position)
    if data is None:
        raise NotInMemory
    return memoryview(data)


def not_whole(name: str, position: int, expected: int | None, *, is_short: bool) -> DamagedSegment:
    reason = "the file ends here" if is_short else "the batch is incomplete"
    return DamagedSegment(name, position, -1 if expected is None else expected, reason)


def _is_large(view: memoryview, size_max: int) -> bool:
    """Return whether the window holds only the beginning of one batch, if its length field is right."""
    return len(view) < _NEW(BatchHeader, HEADER.unpack_from(view)).size_bytes <= size_max


def _read_large_batch(store: SegmentStore, name: str, view: memoryview, position: int) -> memoryview:
    """Return the whole batch that begins with `view`; `view` itself if the checksum is wrong.

    Memory is allocated only after the checksum matched.
    """
    header = _NEW(BatchHeader, HEADER.unpack_from(view))
    crc, end = crc32c(view[CHECKED_FROM:]), position + header.size_bytes
    for start in range(position + len(view), end, WINDOW_BYTES):
        crc = crc32c(fetched(store.read, name, min(WINDOW_BYTES, end - start), start), crc)
    return fetched(store.read, name, header.size_bytes, position) if crc == header.crc else view


def read_index_files(
    store: SegmentStore, folder: str, segment: SegmentInfo, start: IndexState, end: IndexState
) -> tuple[bytes, bytes]:
    _, offset_name, time_name = file_names(folder, segment.base_offset, segment.cleanings)
    offset_size = end.offset_index_bytes - start.offset_index_bytes
    time_size = end.time_index_bytes - start.time_index_bytes
    return (
        bytes(store.read(offset_name, offset_size, start.offset_index_bytes)) if offset_size else b"",
        bytes(store.read(time_name, time_size, start.time_index_bytes)) if time_size else b"",
    )


def resumed_builder(store: SegmentStore, folder: str, segment: SegmentInfo) -> IndexBuilder:
    """Return a builder that continues an unsealed segment; the entries from its `take` are appended to the index files.

    If the index files are damaged or missing, `take` returns both completely, rebuilt from the batches.

    Raises:
        DamagedSegment: the log file is damaged.
        FileNotFoundError: the log file is missing.
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
        raise DamagedIndexError("the manifest has no checksums of the index files")
    files = read_index_files(store, folder, segment, IndexState(), segment.indexes)
    builder = IndexBuilder.resume(segment.base_offset, segment.indexes, *files)
    for header, batch in read_batches(store, folder, segment, builder.size_bytes):
        builder.add(header.base_offset, header.last_offset, len(batch), header.max_timestamp)
    # Batches after the last entry are not in the files, but they count for the next entries.
    if builder.next_state() != segment.indexes:
        raise DamagedIndexError("the index files do not match the batches after their last entry")
    return builder


class IndexRebuild:
    """A rebuild of a segment's indexes from its batches.

    Only the recorded state can tell offsets that were skipped on purpose from damaged base offsets. If the rebuilt
    state differs, the whole segment counts as damaged. If no state was recorded and the segment is damaged, only the
    batches before the first skip are trusted.
    """

    def __init__(self, folder: str, segment: SegmentInfo) -> None:
        self.builder = IndexBuilder(segment.base_offset)
        self._folder = folder
        self._segment = segment
        self._first_skip: tuple[int, int] | None = None

    def add(self, header: BatchHeader, size_bytes: int) -> None:
        builder = self.builder
        if self._first_skip is None and header.base_offset != builder.last_offset + 1:
            self._first_skip = builder.size_bytes, builder.last_offset + 1
        builder.add(header.base_offset, header.last_offset, size_bytes, header.max_timestamp)

    def finish(self, damage: DamagedSegment | None) -> DamagedSegment | None:
        """Complete the index of a sealed segment, and return the damage of the segment; None if it is intact.

        Args:
            damage: found after the last added batch; None if the end of the segment was reached.
        """
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
        reason = "recorded offsets are missing" if damage is None else damage.reason
        return DamagedSegment(log_name(self._folder, segment.base_offset, segment.cleanings), *first_skip, reason)


def rebuilt_index(store: SegmentStore, folder: str, segment: SegmentInfo) -> tuple[IndexBuilder, DamagedSegment | None]:
    """Rebuild the indexes from the readable batches; also return the damage of the segment, or None if it is intact.

    Raises:
        FileNotFoundError: the log file is missing.
    """
    rebuild, damage = IndexRebuild(folder, segment), None
    try:
        for header, batch in read_batches(store, folder, segment):
            rebuild.add(header, len(batch))
    except DamagedSegment as found:
        damage = found
    return rebuild.builder, rebuild.finish(damage)
