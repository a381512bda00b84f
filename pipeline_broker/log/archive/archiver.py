"""From the journal to the archive: one complete journal segment at a time.

Rules of this file: it runs in the one thread that writes to the archive. Batches are copied as they are. Everything
that a round wrote is durable before the manifest names it, and the journal's space is given back only when the manifest
is durable. A round that was cut short has changed nothing that counts, and the next one writes the same bytes again,
which is also what makes a sync after a failed one worth something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.manifest import Edit, PartitionManifest
from pipeline_broker.log.archive.segment_file import segment_names
from pipeline_broker.log.log_segment import RELATIVE_OFFSET_MAX, LogSegment
from pipeline_broker.log.producer_state import SEQUENCE_MASK, ProducedBatch, ProducerStates
from pipeline_broker.log.retention import RollRules, should_roll
from pipeline_broker.records.batch import LENGTH_OVERHEAD, BatchHeader, read_header

if TYPE_CHECKING:
    from pipeline_broker.log.archive.archive import Archive
    from pipeline_broker.log.archive.store import SegmentStore
    from pipeline_broker.log.journal import Journal

__all__ = ["ArchiveTarget", "Archiver"]

BUFFERED_BYTES_MAX = 8 << 20
"""Batches that are held in memory before they are written: it takes many small ones to make a write worth while."""


@attrs.frozen
class ArchiveTarget:
    """What the archive must know of a log that it takes over from.

    Attributes:
        folder: where its files go.
        rules: when a segment ends.
        log_start_offset: batches that end in front of it are not kept.
        producer_expiration_ms: how long a silent producer is remembered.
    """

    folder: str
    rules: RollRules
    log_start_offset: int = 0
    producer_expiration_ms: int = 2**63 - 1


class Archiver:
    """See the rules of the file.

    Args:
        archive: where to.
        journal: where from.
    """

    def __init__(self, archive: Archive, journal: Journal) -> None:
        self._archive = archive
        self._journal = journal

    def run_one(self, targets: Mapping[bytes, ArchiveTarget], now_ms: int) -> tuple[int, Edit] | None:
        """Take over the oldest complete segment of the journal; its number and the edit, None when there is none.

        The event loop shows the edit to the logs, and only then may the segment be recycled.

        Args:
            targets: the logs that there are, by entry key; batches of others belong to deleted topics.
            now_ms: wall clock.

        Raises:
            JournalCorrupt: the journal does not hold what was written to it.
            OSError: the disk cannot.
        """
        sealed = self._journal.sealed()
        if not sealed:
            return None
        number, end_lsn = sealed[0]
        if end_lsn <= self._archive.lsn:  # a start found it here already
            return number, Edit(self._archive.lsn, {})
        writers: dict[bytes, _PartitionWriter] = {}
        buffered = 0
        for key, _, batch in self._journal.sealed_entries(number, end_lsn):
            writer = writers.get(key)
            if writer is None:
                target = targets.get(key)
                if target is None:
                    continue
                self._archive.make_folder_free(key, target.folder)
                writer = writers[key] = _PartitionWriter(self._archive, key, target, now_ms)
            writer.add(read_header(batch), batch)
            buffered += len(batch)
            if buffered >= BUFFERED_BYTES_MAX:
                _flush(writers)
                buffered = 0
        _flush(writers)
        self._archive.store.sync([name for writer in writers.values() for name in writer.written])
        edit = Edit(end_lsn, {key: writer.manifest() for key, writer in writers.items()})
        self._archive.commit(edit)
        return number, edit


def _flush(writers: Mapping[bytes, _PartitionWriter]) -> None:
    for writer in writers.values():
        writer.flush()


class _ActiveSegment:
    """The segment that is being appended to; plain fields, because every batch changes them."""

    __slots__ = ("base_offset", "first_timestamp", "generation", "index", "last_offset", "max_timestamp", "size_bytes")

    def __init__(self, segment: LogSegment, index: IndexBuilder) -> None:
        self.base_offset = segment.base_offset
        self.generation = segment.generation
        self.first_timestamp = segment.first_timestamp
        self.last_offset = segment.last_offset
        self.max_timestamp = segment.max_timestamp
        self.size_bytes = segment.size_bytes
        self.index = index

    def segment(self, now_ms: int, *, is_sealed: bool) -> LogSegment:
        """What the manifest says of it."""
        return LogSegment(
            base_offset=self.base_offset,
            generation=self.generation,
            last_offset=self.last_offset,
            size_bytes=self.size_bytes,
            first_timestamp=self.first_timestamp,
            max_timestamp=self.max_timestamp,
            modified_ms=now_ms,
            is_sealed=is_sealed,
        )


class _PartitionWriter:
    """Appends to the segments of one partition."""

    def __init__(self, archive: Archive, key: bytes, target: ArchiveTarget, now_ms: int) -> None:
        before = archive.find(key)
        self._before = PartitionManifest(target.folder) if before is None else before
        self._store: SegmentStore = archive.store
        self._target = target
        self._now_ms = now_ms
        self._sealed = list(self._before.segments)
        self._active: _ActiveSegment | None = None
        self._created_ms = now_ms
        self._start_offset = max(target.log_start_offset, self._before.log_start_offset)
        self._end_offset = self._before.end_offset
        self._producers: ProducerStates | None = None
        self._parts: list[bytes] = []
        self._buffered_bytes = 0
        self.written: dict[str, None] = {}
        if self._sealed and not self._sealed[-1].is_sealed:
            active = self._sealed.pop()
            self._created_ms = active.modified_ms
            self._active = _ActiveSegment(active, archive.reader.index_builder(self._before.folder, active))

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """Take over one batch; it is copied."""
        base_offset, length, _, _, _, _, last_delta, _, max_timestamp, producer_id, _, sequence, _ = header
        last_offset = base_offset + last_delta
        if producer_id >= 0 and sequence >= 0:
            self._note_producer(header, last_offset)
        self._end_offset = last_offset + 1
        if last_offset < self._start_offset:
            return
        size_bytes = LENGTH_OVERHEAD + length
        active = self._active
        if active is None or self._should_roll(active, size_bytes, last_offset, max_timestamp):
            active = self._roll(header)
        active.index.add(last_offset, size_bytes, max_timestamp)
        active.last_offset = last_offset
        active.size_bytes += size_bytes
        if max_timestamp > active.max_timestamp:
            active.max_timestamp = max_timestamp
        self._parts.append(bytes(batch))
        self._buffered_bytes += size_bytes

    def _should_roll(self, active: _ActiveSegment, size_bytes: int, last_offset: int, max_timestamp: int) -> bool:
        rules = self._target.rules
        if (
            active.size_bytes + size_bytes <= rules.segment_bytes
            and last_offset - active.base_offset <= RELATIVE_OFFSET_MAX
            and 0 <= active.first_timestamp
            and max_timestamp - active.first_timestamp <= rules.roll_ms
        ):
            return False  # nearly always
        return should_roll(
            active.segment(self._now_ms, is_sealed=False),
            rules,
            self._now_ms,
            batch_size_bytes=size_bytes,
            batch_last_offset=last_offset,
            batch_max_timestamp=max_timestamp,
            created_ms=self._created_ms,
        )

    def _roll(self, header: BatchHeader) -> _ActiveSegment:
        self.flush()
        if self._active is not None:
            self._sealed.append(self._active.segment(self._now_ms, is_sealed=True))
        first = LogSegment(
            base_offset=header.base_offset,
            last_offset=header.base_offset - 1,
            size_bytes=0,
            first_timestamp=header.max_timestamp,
            is_sealed=False,
        )
        self._created_ms = self._now_ms
        self._active = _ActiveSegment(first, IndexBuilder(header.base_offset))
        return self._active

    def flush(self) -> None:
        """Write what is held in memory."""
        active = self._active
        if not self._parts or active is None:
            return
        log_name, *index_names = segment_names(self._before.folder, active.base_offset, active.generation)
        self._store.write(log_name, self._parts, active.size_bytes - self._buffered_bytes)
        self.written[log_name] = None
        for name, (position, data) in zip(index_names, active.index.take(), strict=True):
            self._store.write(name, [data], position)
        self._parts, self._buffered_bytes = [], 0

    def _note_producer(self, header: BatchHeader, last_offset: int) -> None:
        if self._producers is None:
            self._producers = ProducerStates.restored(self._before.producers)
        sequence = header.base_sequence
        last_sequence = (sequence + header.last_offset_delta) & SEQUENCE_MASK
        batch = ProducedBatch(sequence, last_sequence, header.base_offset, last_offset, header.max_timestamp)
        self._producers.record(header.producer_id, header.producer_epoch, batch, self._now_ms)

    def manifest(self) -> PartitionManifest:
        """What the archive holds of the partition now."""
        producers = self._before.producers
        if self._producers is not None:
            self._producers.expire(self._now_ms, self._target.producer_expiration_ms)
            producers = self._producers.snapshot()
        active = () if self._active is None else (self._active.segment(self._now_ms, is_sealed=False),)
        return attrs.evolve(
            self._before,
            log_start_offset=self._start_offset,
            end_offset=self._end_offset,
            segments=(*self._sealed, *active),
            producers=producers,
        )
