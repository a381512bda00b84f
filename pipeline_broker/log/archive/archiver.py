"""From the journal to the archive: the oldest complete segments of it, one or several, are one round.

Rules of this file: it runs in the one thread that writes to the archive. Batches go over as they are, in the order of
the journal. Everything that a round wrote is durable before the manifest names it, by one edit for all of its segments,
and the journal's space is given back only when the manifest is durable: in which order a store of objects gets the
parts of a round is its own affair. A round that was cut short has changed nothing that counts, and the next one writes
the same bytes again, which is also what makes a sync after a failed one worth something. A round of thousands of
partitions takes thousands of syncs, so the end of a broker may cut it short between any two of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.manifest import Edit, PartitionManifest
from pipeline_broker.log.archive.pace import Pace
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names, resumed_builder, transaction_index_name
from pipeline_broker.log.archive.transaction_index import TransactionIndex, aborted_in
from pipeline_broker.log.errors import DamagedSegment
from pipeline_broker.log.journal.entry import Buffer
from pipeline_broker.log.journal.frame import StoredEntry
from pipeline_broker.log.journal.journal_port import JournalPort
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction, OpenTransactions
from pipeline_broker.log.producers.producer_batches import produced_batch, replay_transactional
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.log.segments.retention import RollRules, should_roll
from pipeline_broker.records.batch import LENGTH_OVERHEAD, TRANSACTIONAL_BIT, BatchHeader, read_header

__all__ = ["ArchiveTarget", "Archiver", "CompleteSegment"]

logger = logging.getLogger(__name__)

SEGMENTS_AT_ONCE, SEGMENTS_BYTES_MAX = 3, 64 << 20
"""Of a round: small segments are taken over together, because each round waits for the store several times."""
BUFFERED_BYTES_MAX = 8 << 20
"""Batches that are held in memory before they are written: it takes many small ones to make a write worth while."""
COPIED_BYTES_MAX = 64 << 10
"""A larger batch is held as it was read; many small ones would hold all that they were read with."""
FILES_SYNCED_AT_ONCE = 64
"""Files that are synced before the round looks again whether it is to end: a fraction of a second."""


class ArchiveTarget(NamedTuple):
    """What the archive must know of a log that it takes over from.

    Attributes:
        folder: where its files go.
        rules: when a segment ends.
        log_start_offset: batches that end in front of it are not kept.
        producer_expiration_ms: how long a silent producer is remembered.
        roll_seed: from which the jitter of its segments is drawn.
    """

    folder: str
    rules: RollRules
    log_start_offset: int = 0
    producer_expiration_ms: int = 2**63 - 1
    roll_seed: bytes = b""


class CompleteSegment(NamedTuple):
    """A segment of the journal that gets no further frame, and is durable.

    Attributes:
        number: of the segment.
        end_lsn: behind its last entry.
    """

    number: int
    end_lsn: int


class Archiver:
    """See the rules of the file.

    Args:
        archive: where to.
        journal: where from.
    """

    def __init__(self, archive: Archive, journal: JournalPort) -> None:
        self._archive = archive
        self._journal = journal

    @property
    def segments_at_once(self) -> int:
        """Of a round, at most."""
        return max(1, min(SEGMENTS_AT_ONCE, SEGMENTS_BYTES_MAX // self._journal.segment_bytes))

    def next_round(self) -> list[CompleteSegment]:
        """The journal's segments that are next to be taken over, oldest first; waits for a write at hand."""
        return [CompleteSegment(*each) for each in self._journal.sealed()[: self.segments_at_once]]

    def take_over(
        self,
        segments: Sequence[CompleteSegment],
        targets: Mapping[bytes, ArchiveTarget],
        now_ms: int,
        check: Callable[[], object] = lambda: None,
    ) -> tuple[int, Edit]:
        """Copy complete segments of the journal; the number of the last one, and the edit.

        The event loop shows the edit to the logs, and only then may the segments be recycled.

        Args:
            segments: found by `next_round`, at least one.
            targets: the logs that there are, by entry key; batches of others belong to deleted topics. Asked for after
                the segments were found: one that is completed later may hold batches of logs that came later.
            now_ms: wall clock.
            check: called now and then until the edit is committed; what it raises ends the round, which has changed
                nothing that counts, as that of a killed process.

        Raises:
            JournalCorrupt: the journal does not hold what was written to it.
            OSError: the disk cannot.
        """
        number, end_lsn = segments[-1]
        self._archive.make_durable()
        if end_lsn <= self._archive.lsn:  # a start found it here already
            return number, Edit(self._archive.lsn, {})
        pace = Pace(check)
        self._archive.make_folders_free({key: target.folder for key, target in targets.items()}, pace)
        writers = self._copy(segments, targets, now_ms, pace)
        written = [name for writer in writers.values() for name in writer.written]
        for start in range(0, len(written), FILES_SYNCED_AT_ONCE):
            self._archive.store.sync(written[start : start + FILES_SYNCED_AT_ONCE])
            pace()
        self._archive.reader.write_repairs()  # here, because a disk that refuses it has the whole round done again
        edit = Edit(end_lsn, {key: writer.manifest() for key, writer in writers.items()})
        self._archive.commit(edit)
        return number, edit

    def _copy(
        self, segments: Sequence[CompleteSegment], targets: Mapping[bytes, ArchiveTarget], now_ms: int, pace: Pace
    ) -> dict[bytes, _PartitionWriter]:
        """Write the batches of segments, not durably; what wrote them, by partition."""
        writers: dict[bytes, _PartitionWriter] = {}
        buffered = 0
        for key, _, batch in self._entries(segments):
            writer = writers.get(key)
            if writer is None:
                target = targets.get(key)
                if target is None:
                    continue
                writer = writers[key] = _PartitionWriter(self._archive, key, target, now_ms)
            writer.add(read_header(batch), batch)
            buffered += len(batch)
            pace()
            if buffered >= BUFFERED_BYTES_MAX:
                _flush(writers, pace)
                buffered = 0
        _flush(writers, pace)
        return writers

    def _entries(self, segments: Sequence[CompleteSegment]) -> Iterator[StoredEntry]:
        for segment in segments:
            if segment.end_lsn > self._archive.lsn:
                yield from self._journal.sealed_entries(*segment, self._archive.lsn)


def _flush(writers: Mapping[bytes, _PartitionWriter], pace: Pace) -> None:
    for writer in writers.values():
        writer.flush()
        pace()


class _PartitionWriter:
    """Appends to the segments of one partition."""

    def __init__(self, archive: Archive, key: bytes, target: ArchiveTarget, now_ms: int) -> None:
        before = archive.find(key)
        self._before = PartitionManifest(target.folder) if before is None else before
        self._archive = archive
        self._target = target
        self._now_ms = now_ms
        self._sealed = list(self._before.segments)
        self._active_before: SegmentInfo | None = None
        self._active: IndexBuilder | None = None
        self._start_offset = max(target.log_start_offset, self._before.log_start_offset)
        self._end_offset: int  # of the last batch: a writer is made for one that comes
        self._producers: ProducerStates | None = None
        self._parts: list[Buffer] = []
        self._buffered_bytes = 0
        self._generation = self._cleanings = 0
        self._created_ms: int  # this and the next two are of the active segment
        self._jitter_ms: int
        self._aborted: TransactionIndex
        self._open = OpenTransactions(self._before.open_transactions)
        self.written: dict[str, None] = {}
        if self._sealed and not self._sealed[-1].is_sealed:
            self._active_before = self._sealed.pop()
            self._created_ms, self._cleanings = self._active_before.modified_ms, self._active_before.cleanings
            try:
                self._active = resumed_builder(archive.store, self._before.folder, self._active_before)
            except DamagedSegment as damage:  # nothing is added to it; what comes is not lost for that
                logger.warning("%s; the log goes on in a new segment", damage)
                self._sealed.append(attrs.evolve(self._active_before, is_sealed=True))
            else:
                self._aborted = TransactionIndex(self._active_before, self._load_aborted)
                self._jitter_ms = self._target.rules.jitter_ms(self._target.roll_seed, self._active.base_offset)

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """Take over one batch; it is copied where its bytes may change, or it is small."""
        base_offset, length, _, _, _, attributes, last_delta, _, max_timestamp, producer_id, _, _, _ = header
        last_offset = base_offset + last_delta
        aborted = self._open.add(header, batch) if attributes & TRANSACTIONAL_BIT else None
        if producer_id >= 0:
            self._note_producer(header, batch)
        self._end_offset = last_offset + 1
        if last_offset < self._start_offset:
            return
        size_bytes = LENGTH_OVERHEAD + length
        active = self._active
        if active is None or self._should_roll(active, size_bytes, last_offset, max_timestamp):
            active = self._roll(base_offset)
        active.add(base_offset, last_offset, size_bytes, max_timestamp)
        self._parts.append(batch if batch.readonly and size_bytes > COPIED_BYTES_MAX else bytes(batch))
        self._buffered_bytes += size_bytes
        if aborted is not None:
            self._aborted.add(aborted)

    def _load_aborted(self) -> list[AbortedTransaction]:
        assert self._active_before is not None, "only a segment that goes on has earlier entries"
        return aborted_in(self._archive.reader, self._before, self._active_before)

    def _should_roll(self, active: IndexBuilder, size_bytes: int, last_offset: int, max_timestamp: int) -> bool:
        rules = self._target.rules
        if not active.can_add(last_offset, size_bytes):
            return True
        before = self._active_before
        first_timestamp = active.first_timestamp if before is None else before.first_timestamp
        if (
            active.size_bytes + size_bytes <= rules.segment_bytes
            and first_timestamp >= 0
            and max_timestamp - first_timestamp <= rules.roll_ms - self._jitter_ms
        ):
            return False  # nearly always
        return should_roll(
            SegmentInfo.written(active, before).facts,
            rules,
            self._now_ms,
            batch_size_bytes=size_bytes,
            batch_last_offset=last_offset,
            batch_max_timestamp=max_timestamp,
            created_ms=self._created_ms,
            jitter_ms=self._jitter_ms,
        )

    def _roll(self, base_offset: int) -> IndexBuilder:
        if self._active is not None:
            self._active.seal()
            self.flush()
            self._sealed.append(self._written(self._active, is_sealed=True))
        self._active_before, self._created_ms = None, self._now_ms
        self._generation, self._cleanings = self._archive.new_generation(), 0
        self._active = IndexBuilder(base_offset)
        self._aborted = TransactionIndex()
        self._jitter_ms = self._target.rules.jitter_ms(self._target.roll_seed, base_offset)
        return self._active

    def _written(self, active: IndexBuilder, *, is_sealed: bool) -> SegmentInfo:
        segment = SegmentInfo.written(
            active,
            self._active_before,
            is_sealed=is_sealed,
            generation=self._generation,
            modified_ms=self._now_ms,
        )
        return self._aborted.noted(segment)

    def flush(self) -> None:
        """Write what is held in memory."""
        active = self._active
        if active is None:
            return
        store = self._archive.store
        names = file_names(self._before.folder, active.base_offset, self._cleanings)
        entries = active.take()
        if self._parts:
            store.write(names[0], self._parts, active.size_bytes - self._buffered_bytes)
            self._parts, self._buffered_bytes = [], 0
            self.written[names[0]] = None
        if entries.offset_entries:
            store.write(names[1], [entries.offset_entries], entries.offset_position)
        if entries.time_entries:
            store.write(names[2], [entries.time_entries], entries.time_position)
        transactions = transaction_index_name(self._before.folder, active.base_offset, self._cleanings)
        if self._aborted.write(store, transactions):
            self.written[transactions] = None

    def _note_producer(self, header: BatchHeader, batch: memoryview) -> None:
        if self._producers is None:
            self._producers = ProducerStates.restored(self._before.producers, self._before.open_transactions)
        if header.is_transactional:
            replay_transactional(self._producers, header, batch, self._now_ms)
        else:
            produced = produced_batch(header, header.base_offset)
            self._producers.record(header.producer_id, header.producer_epoch, produced, self._now_ms)

    def manifest(self) -> PartitionManifest:
        """What the archive holds of the partition now."""
        producers = self._before.producers
        if self._producers is not None:
            self._producers.expire(self._now_ms, self._target.producer_expiration_ms)
            producers = self._producers.snapshot()
        active = () if self._active is None else (self._written(self._active, is_sealed=False),)
        return attrs.evolve(
            self._before,
            log_start_offset=self._start_offset,
            end_offset=self._end_offset,
            segments=(*self._sealed, *active),
            producers=producers,
            open_transactions=self._open.first_offsets,
        )
