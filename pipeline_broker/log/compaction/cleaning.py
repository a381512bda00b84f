"""One compaction round over one archived log: reads its segments and writes their replacements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.archive import Archive, Cleaned
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.manifest import PartitionManifest
from pipeline_broker.log.archive.pace import Pace
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names, transaction_index_name
from pipeline_broker.log.archive.transaction_index import TransactionIndex, aborted_in
from pipeline_broker.log.compaction.cleaner import CleaningRound, DirtyPart, LastRecord, RoundParameters
from pipeline_broker.log.compaction.offset_map import DEDUPE_BUFFER_BYTES_DEFAULT, OffsetMap
from pipeline_broker.log.compaction.schedule import CleaningPlan
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.segments.log_segment import LogSegment
from pipeline_broker.records.batch import BatchHeader

__all__ = ["clean"]

BUFFERED_BYTES_MAX = 1 << 20  # batches held in memory, so that small ones share a write


def clean(
    archive: Archive,
    manifest: PartitionManifest,
    plan: CleaningPlan,
    last_records: Mapping[int, LastRecord],
    now_ms: int,
    dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES_DEFAULT,
    check: Callable[[], object] = lambda: None,
) -> Cleaned | None:
    """Compact a log into new files; return None if nothing can be cleaned.

    Runs in a thread, possibly for long, while the archiver appends to the same log. It reads the segments of `manifest`
    and changes nothing that counts. The archive's writing thread commits the result, if all segments that were read
    still exist.

    Args:
        archive: contains the log.
        manifest: manifest of the log, as of the plan.
        plan: the range to clean.
        last_records: last records of the log's live producers.
        now_ms: wall-clock time.
        dedupe_buffer_bytes: memory for the offset map. If the keys do not fit, the round cleans a smaller range.
        check: called regularly. An exception from it ends the round; the next startup deletes its files.

    Raises:
        DamagedSegment, RecordError: a segment is damaged, or its records cannot be decoded.
        SegmentGone: a segment was deleted or replaced during the round.
        OSError: the disk or the store failed.
    """
    if not plan.dirty_segments:
        return None
    # The number of dirty offsets bounds the number of keys, so small ranges take little memory.
    offset_map, pace = OffsetMap(dedupe_buffer_bytes, keys_max=plan.dirty_offsets), Pace(check)
    by_base = {segment.base_offset: segment for segment in manifest.segments}

    def batches_of(segments: Sequence[LogSegment]) -> Iterator[tuple[BatchHeader, Buffer]]:
        for segment in segments:
            for header, batch in archive.reader.batches(manifest.folder, by_base[segment.base_offset]):
                yield header, batch
                pace()

    # Of the whole log, because a transaction may begin in an earlier segment than its marker.
    aborted = [entry for each in manifest.segments for entry in aborted_in(archive.reader, manifest, each)]
    end_offset = _map_keys(offset_map, plan, aborted, batches_of)
    parameters = RoundParameters(
        now_ms=now_ms,
        delete_retention_ms=plan.log.rules.delete_retention_ms,
        upper_bound_offset=plan.first_uncleanable_offset,
        last_records=last_records,
    )
    cleaning = CleaningRound(offset_map, parameters, aborted)
    replaced, written = list[SegmentInfo](), list[SegmentInfo]()
    for group in plan.groups(end_offset):
        sources = [by_base[segment.base_offset] for segment in group]
        replaced += sources
        written += _GroupWriter(archive, manifest, sources, cleaning).write(cleaning.clean(batches_of(group)))
    return Cleaned(manifest.folder, tuple(replaced), tuple(written), end_offset)


def _map_keys(
    offset_map: OffsetMap,
    plan: CleaningPlan,
    aborted: Sequence[AbortedTransaction],
    batches_of: Callable[[Sequence[LogSegment]], Iterator[tuple[BatchHeader, Buffer]]],
) -> int:
    dirty = DirtyPart(offset_map, plan.first_dirty_offset, aborted)
    segments = plan.dirty_segments
    for segment, following in zip(segments, (*segments[1:], None), strict=True):
        next_base = plan.first_uncleanable_offset if following is None else following.base_offset
        if not dirty.add_segment(batches_of([segment]), next_base):
            break
    return min(dirty.end_offset, plan.first_uncleanable_offset)


class _GroupWriter:
    def __init__(
        self, archive: Archive, manifest: PartitionManifest, sources: Sequence[SegmentInfo], cleaning: CleaningRound
    ) -> None:
        self._archive = archive
        self._cleaning = cleaning
        self._aborted: list[AbortedTransaction] = []  # their markers are not in a finished segment yet
        self._folder, self._epochs = manifest.folder, manifest.epochs
        self._cleanings = 1 + max(source.cleanings for source in sources)
        self._base_offset = sources[0].base_offset
        self._modified_ms = max(source.modified_ms for source in sources)
        self._builder: IndexBuilder | None = None
        self._parts: list[Buffer] = []
        self._buffered_bytes = 0

    def write(self, batches: Iterator[tuple[BatchHeader, Buffer]]) -> Iterator[SegmentInfo]:
        """Yield the segments; each is durable when it is yielded."""
        for header, batch in batches:
            size_bytes = len(batch)
            if self._builder is not None and not self._builder.can_add(header.last_offset, size_bytes):
                yield self._finish(self._builder)
                self._builder, self._base_offset = None, header.base_offset
            if self._builder is None:
                self._builder = IndexBuilder(self._base_offset)
            self._builder.add(header.base_offset, header.last_offset, size_bytes, header.max_timestamp)
            self._parts.append(bytes(batch))
            self._buffered_bytes += size_bytes
            if self._buffered_bytes >= BUFFERED_BYTES_MAX:
                self._flush(self._builder)
        if self._builder is not None:
            yield self._finish(self._builder)

    def _names(self, builder: IndexBuilder) -> tuple[str, str, str]:
        return file_names(self._folder, builder.base_offset, self._cleanings)

    def _flush(self, builder: IndexBuilder) -> None:
        if self._parts:
            position = builder.size_bytes - self._buffered_bytes
            self._archive.cleaning_store.write(self._names(builder)[0], self._parts, position)
        self._parts, self._buffered_bytes = [], 0

    def _finish(self, builder: IndexBuilder) -> SegmentInfo:
        builder.seal()
        self._flush(builder)
        names = self._names(builder)
        entries = builder.take()
        store = self._archive.cleaning_store
        if entries.offset_entries:
            store.write(names[1], [entries.offset_entries], 0)
        if entries.time_entries:
            store.write(names[2], [entries.time_entries], 0)
        index = self._transaction_index(builder)
        transactions = transaction_index_name(self._folder, builder.base_offset, self._cleanings)
        # The offset and time indexes are not synced: the manifest has their checksums, and lost ones are rebuilt.
        store.sync([names[0], transactions] if index.write(store, transactions) else [names[0]])
        segment = SegmentInfo.written(
            builder,
            is_sealed=True,
            generation=self._archive.new_generation(),
            modified_ms=self._modified_ms,
            cleanings=self._cleanings,
            epochs=self._epochs,
        )
        return index.noted(segment)

    def _transaction_index(self, builder: IndexBuilder) -> TransactionIndex:
        index = TransactionIndex()
        self._aborted += self._cleaning.take_aborted()
        while self._aborted and self._aborted[0].last_offset <= builder.last_offset:
            index.add(self._aborted.pop(0))
        return index
