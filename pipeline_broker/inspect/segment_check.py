"""Verification of one segment of the archive: batches, indexes, and surplus bytes of its files."""

from collections.abc import Iterator

import attrs

from pipeline_broker.inspect.findings import (
    ArchivedBatchFound,
    ArchiveSegmentEnd,
    Damage,
    Finding,
    IndexFound,
    IndexStatus,
    Leftover,
)
from pipeline_broker.inspect.secrets import without_secrets
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.inspect.state_check import set_aside_in
from pipeline_broker.inspect.topic_names import TopicNames
from pipeline_broker.log.archive.index_files import INDEX_SIZE_MAX, OFFSET_ENTRY, TIME_ENTRY, IndexState
from pipeline_broker.log.archive.local.local_archive import ARCHIVE_NAME
from pipeline_broker.log.archive.segment_file import (
    IndexRebuild,
    SegmentInfo,
    file_names,
    read_batches,
    transaction_index_name,
)
from pipeline_broker.log.archive.segment_index import SegmentIndex
from pipeline_broker.log.archive.store import SegmentStore
from pipeline_broker.log.errors import DamagedIndexError, DamagedSegment
from pipeline_broker.log.journal.frame import split_key
from pipeline_broker.log.producers.aborted_transactions import ENTRY as TRANSACTION_ENTRY
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import Record, iterate_records

__all__ = ["SegmentCheck", "file_of"]


def file_of(name: str) -> str:
    return f"{ARCHIVE_NAME}/{name}"


class SegmentCheck:
    """The check of one segment, with a window of it and its two indexes in memory.

    The batches are compared with the manifest and the indexes, like a reader does. The indexes are compared with the
    manifest, and with those that the batches give. The index of aborted transactions is compared with the manifest
    alone.

    Args:
        store: holds the segment.
        folder, segment: the folder and the segment from the manifest.
        names: topic names.
        selection: the batches and records to report; None for no batches.
    """

    def __init__(
        self,
        store: SegmentStore,
        key: bytes,
        folder: str,
        segment: SegmentInfo,
        names: TopicNames,
        selection: Selection | None,
    ) -> None:
        self._store = store
        self._topic_id, self._partition = split_key(key)
        self._folder = folder
        self._segment = segment
        self._names = names
        self._selection = selection
        self._files = file_names(folder, segment.base_offset, segment.cleanings)
        self._batches = 0
        self._records = 0

    def findings(self) -> Iterator[Finding]:
        """Yield all findings in the order of the data; raises PermissionError if access to a file is denied."""
        contents = self._index_contents()
        index = self._index(contents)
        rebuild = IndexRebuild(self._folder, self._segment)
        damage: DamagedSegment | None = None
        try:
            yield from self._read_batches(rebuild, index)
        except DamagedSegment as found:
            damage = found
        except PermissionError:
            raise
        except FileNotFoundError:
            damage = DamagedSegment(self._files[0], 0, self._segment.base_offset, "the file is missing")
        except OSError as error:
            position, offset = rebuild.builder.size_bytes, rebuild.builder.last_offset + 1
            damage = DamagedSegment(self._files[0], position, offset, f"it cannot be read: {error.strerror}")
        unconfirmed = rebuild.finish(damage)
        if index is None:  # a valid index names the batches that it skips
            damage = unconfirmed
        if damage is not None:
            offset_or_none = None if damage.offset < 0 else damage.offset
            yield Damage(file_of(damage.name), damage.position, damage.reason, offset_or_none)
        else:
            yield from self._check_timestamps(rebuild)
        yield ArchiveSegmentEnd(file_of(self._files[0]), self._batches, self._records)
        yield from self._check_indexes(contents, None if damage is not None else rebuild)
        yield from self._check_transaction_index()
        yield from self._uncounted_bytes()

    def _read_batches(self, rebuild: IndexRebuild, index: SegmentIndex | None) -> Iterator[Finding]:
        position = 0
        segment = self._as_far_as_there_is()
        # The same function serves consumers, so both agree about damage.
        for header, batch in read_batches(self._store, self._folder, segment, 0, index):
            rebuild.add(header, len(batch))
            self._batches += 1
            self._records += header.record_count
            self._names.note_batch(self._topic_id, header, batch)
            selection = self._selection
            if selection is not None and selection.takes_offsets(header.base_offset, header.last_offset):
                yield from self._show(header, batch, position, selection)
                topic = self._names.live_name(self._topic_id)
                yield from set_aside_in(topic, self._topic_id, self._partition, header, batch, selection)
            position += len(batch)

    def _as_far_as_there_is(self) -> SegmentInfo:
        # If the file is too short, read the batches that are left. The damage then starts at the first missing batch.
        size_bytes = min(self._segment.size_bytes, self._store.size_bytes(self._files[0]))
        return attrs.evolve(self._segment, size_bytes=size_bytes)

    def _show(self, header: BatchHeader, batch: memoryview, position: int, selection: Selection) -> Iterator[Finding]:
        records: tuple[Record, ...] = ()
        problem = ""
        if selection.with_records:
            try:
                records = tuple(
                    without_secrets(self._topic_id, record)
                    for record in iterate_records(batch, header)
                    if selection.takes_record(record)
                )
            except RecordError as error:
                problem = str(error)
        name, file = self._names.find(self._topic_id), file_of(self._files[0])
        yield ArchivedBatchFound(file, position, name, self._topic_id, self._partition, len(batch), header, records)
        if problem:
            yield Damage(file, position, problem, header.base_offset)

    def _check_timestamps(self, rebuild: IndexRebuild) -> Iterator[Damage]:
        # Retention and searches by time rely on the manifest's timestamps.
        segment, builder = self._segment, rebuild.builder
        said = segment.first_timestamp, segment.max_timestamp
        found = builder.first_timestamp, builder.max_timestamp
        if said != found:
            reason = f"the first and the largest timestamp are {said} in the manifest, but {found} in the batches"
            yield Damage(file_of(self._files[0]), 0, reason, segment.base_offset)

    # The indexes

    def _index_contents(self) -> tuple[bytes | None, bytes | None]:
        state = self._segment.indexes
        _, offset_name, time_name = self._files
        if state is None:  # the manifest does not record their sizes
            return self._content(offset_name, INDEX_SIZE_MAX), self._content(time_name, INDEX_SIZE_MAX)
        return self._content(offset_name, state.offset_index_bytes), self._content(time_name, state.time_index_bytes)

    def _content(self, name: str, size_bytes: int) -> bytes | None:
        if not size_bytes:
            return b""
        try:
            return bytes(self._store.read(name, size_bytes, 0))
        except PermissionError:
            raise
        except OSError:
            return None

    def _index(self, contents: tuple[bytes | None, bytes | None]) -> SegmentIndex | None:
        segment, (offsets, times) = self._segment, contents
        if segment.indexes is None or offsets is None or times is None:
            return None
        empty = SegmentIndex.empty(segment.base_offset)
        try:
            return empty.grown(
                segment.last_offset, segment.size_bytes, segment.max_timestamp, segment.indexes, offsets, times
            )
        except DamagedIndexError:
            return None

    def _check_indexes(
        self, contents: tuple[bytes | None, bytes | None], rebuild: IndexRebuild | None
    ) -> Iterator[Finding]:
        state = self._segment.indexes
        expected: tuple[bytes | None, bytes | None] = (None, None)
        if rebuild is not None:
            entries = rebuild.builder.take()
            expected = entries.offset_entries, entries.time_entries
        recorded = _recorded(state)
        sizes = OFFSET_ENTRY.size, TIME_ENTRY.size
        for name, content, wanted, said, size in zip(self._files[1:], contents, expected, recorded, sizes, strict=True):
            yield from _judge_index(file_of(name), content, wanted, said, size)

    def _check_transaction_index(self) -> Iterator[Finding]:
        # Only the checksum can be verified: the entries may be about batches of earlier segments.
        segment = self._segment
        if segment.aborted_bytes:
            name = transaction_index_name(self._folder, segment.base_offset, segment.cleanings)
            content = self._content(name, segment.aborted_bytes)
            recorded = segment.aborted_bytes, segment.aborted_crc
            yield from _judge_index(file_of(name), content, None, recorded, TRANSACTION_ENTRY.size)

    def _uncounted_bytes(self) -> Iterator[Leftover]:
        state = self._segment.indexes
        counted: list[tuple[str, int]] = [(self._files[0], self._segment.size_bytes)]
        if state is not None:
            counted += [(self._files[1], state.offset_index_bytes), (self._files[2], state.time_index_bytes)]
        for name, counted_bytes in counted:
            try:
                size_bytes = self._store.size_bytes(name)
            except OSError:
                continue
            if size_bytes > counted_bytes:
                reason = "bytes that the manifest does not count"
                yield Leftover(file_of(name), counted_bytes, size_bytes - counted_bytes, reason)


def _recorded(state: IndexState | None) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    if state is None:
        return None, None
    return (
        (state.offset_index_bytes, state.offset_index_crc),
        (state.time_index_bytes, state.time_index_crc),
    )


def _judge_index(
    file: str, content: bytes | None, wanted: bytes | None, recorded: tuple[int, int] | None, entry_size: int
) -> Iterator[Finding]:
    """Yield the finding of one index file, and its damage.

    Args:
        content: the content of the file; None if it cannot be read.
        wanted: the content that the batches give; None if unknown.
        recorded: size and checksum in the manifest; None if unknown.
        entry_size: the size of an entry in bytes.
    """
    reason, position = "", 0
    status = IndexStatus.VALID
    if content is None:
        status, reason = IndexStatus.MISSING, "the index is missing"
    elif recorded is not None and (len(content), crc32c(content)) != recorded:
        status, reason = IndexStatus.DAMAGED, "the index is damaged"
    elif wanted is not None and content != wanted:
        status, reason = IndexStatus.DAMAGED, "the index does not match the batches"
    if content is not None and reason:
        position = len(content) if wanted is None else _first_difference(content, wanted)
        if wanted is None and recorded is not None and len(content) == recorded[0]:
            position = 0  # a wrong checksum does not say where
    size_bytes = recorded[0] if recorded is not None else len(wanted if wanted is not None else content or b"")
    yield IndexFound(file, size_bytes // entry_size, size_bytes, status)
    if reason:
        yield Damage(file, position, f"{reason}; a broker rebuilds the index before it uses it")


def _first_difference(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
