"""From the journal to the archive: one complete journal segment at a time.

Rules of this file: it runs in the one thread that writes to the archive. Batches are copied as they are. Everything
that a round wrote is durable before the manifest names it, and the journal's space is given back only when the manifest
is durable. A round that was cut short has changed nothing that counts, and the next one writes the same bytes again,
which is also what makes a sync after a failed one worth something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.manifest import Edit, PartitionManifest
from pipeline_broker.log.archive.segment_file import segment_names
from pipeline_broker.log.log_segment import LogSegment
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


class _PartitionWriter:
    """Appends to the segments of one partition."""

    def __init__(self, archive: Archive, key: bytes, target: ArchiveTarget, now_ms: int) -> None:
        before = archive.find(key)
        self._before = PartitionManifest(target.folder) if before is None else before
        self._store: SegmentStore = archive.store
        self._target = target
        self._now_ms = now_ms
        self._sealed = list(self._before.segments)
        self._active: LogSegment | None = None
        self._index: IndexBuilder | None = None
        self._end_offset = self._before.end_offset
        self._producers: ProducerStates | None = None
        self._parts: list[bytes] = []
        self.written: dict[str, None] = {}
        if self._sealed and not self._sealed[-1].is_sealed:
            self._active = self._sealed.pop()
            self._index = archive.reader.index_builder(self._before.folder, self._active)

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """Take over one batch; it is copied."""
        last_offset = header.base_offset + header.last_offset_delta
        self._note_producer(header, last_offset)
        self._end_offset = last_offset + 1
        if last_offset < max(self._target.log_start_offset, self._before.log_start_offset):
            return
        size_bytes = LENGTH_OVERHEAD + header.length
        active = self._active
        if active is None or should_roll(
            active,
            self._target.rules,
            self._now_ms,
            batch_size_bytes=size_bytes,
            batch_last_offset=last_offset,
            batch_max_timestamp=header.max_timestamp,
            created_ms=active.modified_ms,
        ):
            active = self._roll(header)
        assert self._index is not None
        self._index.add(last_offset, size_bytes, header.max_timestamp)
        self._parts.append(bytes(batch))
        self._active = attrs.evolve(
            active,
            last_offset=last_offset,
            size_bytes=active.size_bytes + size_bytes,
            max_timestamp=max(active.max_timestamp, header.max_timestamp),
            modified_ms=self._now_ms,
        )

    def _roll(self, header: BatchHeader) -> LogSegment:
        self.flush()
        if self._active is not None:
            self._sealed.append(attrs.evolve(self._active, is_sealed=True))
        self._index = IndexBuilder(header.base_offset)
        self._active = LogSegment(
            base_offset=header.base_offset,
            last_offset=header.base_offset - 1,
            size_bytes=0,
            first_timestamp=header.max_timestamp,
            modified_ms=self._now_ms,
            is_sealed=False,
        )
        return self._active

    def flush(self) -> None:
        """Write what is held in memory."""
        if not self._parts or self._active is None or self._index is None:
            return
        log_name, *index_names = (f"{self._before.folder}/{name}" for name in segment_names(self._active))
        size_bytes = sum(map(len, self._parts))
        self._store.write(log_name, self._parts, self._active.size_bytes - size_bytes)
        self.written[log_name] = None
        for name, (position, data) in zip(index_names, self._index.take(), strict=True):
            self._store.write(name, [data], position)
        self._parts = []

    def _note_producer(self, header: BatchHeader, last_offset: int) -> None:
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        if self._producers is None:
            self._producers = ProducerStates.restored(self._before.producers)
        last_sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK
        batch = ProducedBatch(
            header.base_sequence, last_sequence, header.base_offset, last_offset, header.max_timestamp
        )
        self._producers.record(header.producer_id, header.producer_epoch, batch, self._now_ms)

    def manifest(self) -> PartitionManifest:
        """What the archive holds of the partition now."""
        producers = self._before.producers
        if self._producers is not None:
            self._producers.expire(self._now_ms, self._target.producer_expiration_ms)
            producers = self._producers.snapshot()
        return attrs.evolve(
            self._before,
            log_start_offset=max(self._before.log_start_offset, self._target.log_start_offset),
            end_offset=self._end_offset,
            segments=tuple(self._segments()),
            producers=producers,
        )

    def _segments(self) -> Iterator[LogSegment]:
        yield from self._sealed
        if self._active is not None:
            yield self._active
