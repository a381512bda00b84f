"""Archiving: copying complete journal segments to the segment files of their partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.manifest import Edit, PartitionManifest
from pipeline_broker.log.archive.pace import Pace
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names, resumed_builder, transaction_index_name
from pipeline_broker.log.archive.transaction_index import TransactionIndex, aborted_in
from pipeline_broker.log.errors import DamagedSegment
from pipeline_broker.log.journal.frame import StoredEntry
from pipeline_broker.log.journal.journal_port import JournalPort, StoredObject
from pipeline_broker.log.leader_epochs import FIRST_EPOCH, LeaderEpochs
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction, OpenTransactions
from pipeline_broker.log.producers.producer_batches import produced_batch, replay_transactional
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.log.segments.retention import RollRules, should_roll
from pipeline_broker.records.batch import LENGTH_OVERHEAD, TRANSACTIONAL_BIT, BatchHeader, read_header

__all__ = ["ArchiveTarget", "Archiver", "CompleteSegment"]

logger = logging.getLogger(__name__)

SEGMENTS_AT_ONCE, SEGMENTS_BYTES_MAX = 3, 64 << 20
"""Limits of one round. Small segments are archived together, because each round waits for the store several times."""
BUFFERED_BYTES_MAX = 8 << 20  # batches held in memory, so that many small ones share a write
WRITTEN_BYTES_MIN = 256 << 10  # a larger batch is written at once rather than copied
COPIED_BYTES_MAX = 64 << 10  # smaller batches are copied, because a view of one would keep its whole read buffer alive
FILES_SYNCED_AT_ONCE = 64  # between two calls of `check`; takes a fraction of a second


class ArchiveTarget(NamedTuple):
    """The settings of a log that the archiver needs.

    Attributes:
        rules: rules of segment rolling.
        log_start_offset: batches that end below it are not archived.
        producer_expiration_ms: time after which a silent producer is forgotten.
        roll_seed: seed of the segment jitter.
        epochs: the leader epochs of the log.
    """

    folder: str
    rules: RollRules
    log_start_offset: int = 0
    producer_expiration_ms: int = 2**63 - 1
    roll_seed: bytes = b""
    epochs: LeaderEpochs = FIRST_EPOCH


class CompleteSegment(NamedTuple):
    """A complete and durable segment of the journal. `end_lsn` is exclusive."""

    number: int
    end_lsn: int


class Archiver:
    """The copying of complete journal segments to an archive, in rounds, in the archive's writing thread.

    * Batches are copied unchanged, in journal order.
    * Everything that a round wrote is durable before its single manifest edit. The journal's space is recycled only
      after the edit is durable.
    * An interrupted round has changed nothing that counts. The next round writes the same bytes again. This also makes
      the round safe after a failed sync, because a sync is only trusted for bytes written after the failure.
    * A round with thousands of partitions needs thousands of syncs, so shutdown may interrupt it between any two.

    Args:
        archive: the destination.
        journal: the source.
    """

    def __init__(self, archive: Archive, journal: JournalPort) -> None:
        self._archive = archive
        self._journal = journal

    @property
    def segments_at_once(self) -> int:
        return max(1, min(SEGMENTS_AT_ONCE, SEGMENTS_BYTES_MAX // self._journal.segment_bytes))

    def next_round(self) -> list[CompleteSegment]:
        """Return the next journal segments to archive, oldest first. May wait for a journal write in progress."""
        return [CompleteSegment(*each) for each in self._journal.sealed()[: self.segments_at_once]]

    def take_over(
        self,
        segments: Sequence[CompleteSegment],
        targets: Mapping[bytes, ArchiveTarget],
        now_ms: int,
        check: Callable[[], object] = lambda: None,
    ) -> tuple[int, Edit]:
        """Archive complete segments of the journal.

        The caller shows the edit to the logs on the event loop. Only then may it recycle the segments.

        Args:
            segments: from `next_round`, at least one.
            targets: all existing logs by journal key. Batches of other logs belong to deleted topics. Must be taken
                after `next_round`, so that it contains every log with batches in the segments.
            now_ms: wall-clock time.
            check: called regularly until the edit is committed. An exception from it ends the round without effect.

        Returns:
            the number of the last segment, and the edit.

        Raises:
            JournalCorrupt: a segment of the journal is damaged.
            FencedError: another broker has taken over the journal or the archive.
            OSError: the disk or the store failed.
        """
        number, end_lsn = segments[-1]
        self._archive.make_durable()
        if end_lsn <= self._archive.lsn:  # archived by an earlier run that ended before it recycled the segments
            return number, Edit(self._archive.lsn, {})
        pace = Pace(check)
        self._archive.make_folders_free({key: target.folder for key, target in targets.items()}, pace)
        writers = self._copy(segments, targets, now_ms, pace)
        written = [name for writer in writers.values() for name in writer.written]
        for start in range(0, len(written), FILES_SYNCED_AT_ONCE):
            self._archive.store.sync(written[start : start + FILES_SYNCED_AT_ONCE])
            pace()
        self._archive.reader.write_repairs()  # before the commit, so that an error here fails the whole round
        edit = Edit(end_lsn, {key: writer.manifest() for key, writer in writers.items()})
        self._archive.commit(edit)
        return number, edit

    def _copy(
        self, segments: Sequence[CompleteSegment], targets: Mapping[bytes, ArchiveTarget], now_ms: int, pace: Pace
    ) -> dict[bytes, _PartitionWriter]:
        writers: dict[bytes, _PartitionWriter] = {}
        buffered = 0
        for key, place, batch in self._entries(segments):
            writer = writers.get(key)
            if writer is None:
                target = targets.get(key)
                if target is None:
                    continue
                writer = writers[key] = _PartitionWriter(self._archive, key, target, now_ms)
            writer.add(read_header(batch), batch, self._journal.origin(place, len(batch)))
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
        self._end_offset: int  # set by the first `add`, which follows at once
        self._producers: ProducerStates | None = None
        self._parts: list[Buffer] = []
        self._origins: dict[int, StoredObject] = {}
        self._buffered_bytes = 0
        self._generation = self._cleanings = 0
        self._created_ms: int  # this and the next two fields describe the active segment
        self._jitter_ms: int
        self._aborted: TransactionIndex
        self._open = OpenTransactions(self._before.open_transactions)
        self.written: dict[str, None] = {}
        if self._sealed and not self._sealed[-1].is_sealed:
            self._active_before = self._sealed.pop()
            self._created_ms, self._cleanings = self._active_before.modified_ms, self._active_before.cleanings
            try:
                self._active = resumed_builder(archive.store, self._before.folder, self._active_before)
            except DamagedSegment as damage:  # the damaged segment is sealed, and new batches are still archived
                logger.warning("%s; the log continues in a new segment", damage)
                self._sealed.append(attrs.evolve(self._active_before, is_sealed=True))
            else:
                self._aborted = TransactionIndex(self._active_before, self._load_aborted)
                self._jitter_ms = self._target.rules.jitter_ms(self._target.roll_seed, self._active.base_offset)

    def add(self, header: BatchHeader, batch: memoryview, origin: StoredObject | None = None) -> None:
        base_offset, length, _, _, _, attributes, last_delta, _, max_timestamp, producer_id, _, _, _ = header
        last_offset = base_offset + last_delta
        aborted = self._open.add(header, batch) if attributes & TRANSACTIONAL_BIT else None
        if producer_id >= 0:
            self._note_producer(header, batch)
        self._end_offset = last_offset + 1
        # After producers and transactions were noted: their state must not depend on the log start.
        if last_offset < self._start_offset:
            return
        size_bytes = LENGTH_OVERHEAD + length
        active = self._active
        if (
            active is None
            or self._should_roll(active, size_bytes, last_offset, max_timestamp)
            or (aborted is not None and not self._knows_aborted())
        ):
            active = self._roll(base_offset)
        active.add(base_offset, last_offset, size_bytes, max_timestamp)
        # The next batch may overwrite the read buffer, so a large batch is kept without a copy only if it is read-only,
        # or written at once.
        is_kept = size_bytes > (COPIED_BYTES_MAX if batch.readonly else WRITTEN_BYTES_MIN)
        if origin is not None:
            self._origins[len(self._parts)] = origin
        self._parts.append(batch if is_kept else bytes(batch))
        self._buffered_bytes += size_bytes
        if aborted is not None:
            self._aborted.add(aborted)
        if is_kept and not batch.readonly:
            self.flush()

    def _knows_aborted(self) -> bool:
        try:
            self._aborted.load()
        except DamagedSegment as damage:
            # A round that failed here would fail for ever, and with it the archiving of all partitions.
            logger.warning("%s; the log continues in a new segment", damage)
            return False
        return True

    def _load_aborted(self) -> list[AbortedTransaction]:
        assert self._active_before is not None, "only a resumed segment has earlier entries"
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
            return False  # the usual case, decided without creating a LogSegment
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
            epochs=self._target.epochs,
        )
        return self._aborted.noted(segment)

    def flush(self) -> None:
        active = self._active
        if active is None:
            return
        store = self._archive.store
        names = file_names(self._before.folder, active.base_offset, self._cleanings)
        entries = active.take()
        if self._parts:
            store.write(names[0], self._parts, active.size_bytes - self._buffered_bytes, self._origins)
            self._parts, self._origins, self._buffered_bytes = [], {}, 0
            self.written[names[0]] = None
        # Index files are not synced: the manifest has their checksums, and a lost one is rebuilt from its segment.
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
            epochs=self._target.epochs,
        )
