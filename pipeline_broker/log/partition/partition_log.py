"""The log of one partition: offsets, producer state, and an index over journal and archive.

Longer than most files: all parts of a log change together.

Counterpart in Kafka: `UnifiedLog`, `LocalLog`.
"""

from __future__ import annotations

from typing import Final

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.errors import GivenUp, JournalCorrupt, OffsetOutOfRange, RecycledError
from pipeline_broker.log.journal.entry import Appended, JournalEntry
from pipeline_broker.log.journal.frame import JOIN_BELOW_BYTES, entry_key
from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.leader_epochs import FIRST_EPOCH, LeaderEpochs
from pipeline_broker.log.partition.committed_reads import AbortedView, cut_at
from pipeline_broker.log.partition.reading import BatchSource
from pipeline_broker.log.partition.tail_cache import TailCache
from pipeline_broker.log.partition.time_search import Found, TimeSearch
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.producers.producer_batches import note_among_transactions, replay_transactional
from pipeline_broker.log.producers.producer_state import SEQUENCE_MASK, ProducedBatch, ProducerStates
from pipeline_broker.log.read_result import ColdRead, LentBatches, ReadResult
from pipeline_broker.log.segments.log_segment import NO_TIMESTAMP
from pipeline_broker.log.segments.policies import DEFAULT_POLICIES, LogPolicies
from pipeline_broker.records.batch import (
    APPEND_TIME_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
    restamp,
    restamped,
    with_times,
)
from pipeline_broker.records.check import (
    DEFAULT_RULES,
    LongBatchError,
    Rules,
    as_stored,
    check_batch,
    takes_long_to_store,
)
from pipeline_broker.records.control_batch import EndMarker, marker_batch
from pipeline_broker.records.errors import RecordError

_NEW: Final = tuple.__new__  # takes half the time of calling the NamedTuple; used for every batch


class PartitionLog:
    """One partition of one topic, like Kafka's `UnifiedLog`. Belongs to the event loop.

    * The log end offset moves on append, and the high watermark when a commit is durable. Reads end at the high
      watermark.
    * Offsets of a failed commit are not reused: after a failure the broker acknowledges nothing more.
    * Everything below the last stable offset is decided: it belongs to no transaction, or to one with a durable marker.
    """

    __slots__ = (
        "_cache",
        "_dropped_batches",
        "_sources",
        "archived",
        "duplicates",
        "entry_key",
        "epochs",
        "high_watermark",
        "index",
        "is_given_up",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "policies",
        "producers",
        "roll_seed",
        "rules",
        "stored_from",
        "tail",
        "topic",
        "topic_id",
        "untimed_ms",
        "untimed_since_ms",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        cache: TailCache,
        sources: tuple[BatchSource, ...],
        rules: Rules = DEFAULT_RULES,
        policies: LogPolicies = DEFAULT_POLICIES,
        roll_seed: bytes = b"",
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.rules = rules
        self.policies = policies
        self.entry_key = entry_key(topic_id, partition)
        self.roll_seed = roll_seed + self.entry_key  # of the jitter of segment.jitter.ms; logs do not roll together
        self.epochs = FIRST_EPOCH
        self.leader_epoch = FIRST_EPOCH.latest  # of the batches that are appended
        self.is_given_up = False  # nothing is appended any more, because another broker will lead the partition (C2)
        self.log_start_offset = 0
        self.log_end_offset = 0  # the next offset to assign
        self.high_watermark = 0  # records below it are durable, hence visible
        self.index = OffsetIndex()
        self.producers = ProducerStates()
        self.duplicates = 0  # batches that were sent again and not appended
        self.tail: dict[int, JournalEntry] = {}  # this log's entries in the tail cache, by base offset
        self.stored_from = 0  # records below it were deleted with their segment, though the journal may still have them
        # Write times of batches without timestamps in the index, which age by them.
        self.untimed_since_ms = NO_TIMESTAMP  # of the first such batch; 0 if it was replayed
        self.untimed_ms = NO_TIMESTAMP  # of the last one
        self.archived: ArchivedLog | None = None  # everything below the first offset in the index
        self._dropped_batches = 0  # batches that left the index because they were archived
        self._cache = cache
        self._sources = sources

    @property
    def folder(self) -> str:
        """The name of the log's folder in the archive, like Kafka's partition directory."""
        return f"{self.topic}-{self.partition}"

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic}-{self.partition} {self.log_start_offset}..{self.log_end_offset}>"

    def produce(self, batch: Buffer, now_ms: int, *, zstd_allowed: bool = True) -> Appended:
        """Check a client's non-transactional batch, and append it. For the arguments see `check_batch`.

        Raises:
            RecordError, LogError: the batch is refused; both have an `error_name`.
            LongBatchError: the check takes longer than a turn. Use `BatchCheck`, then `append_checked`.
        """
        rules = self.rules
        try:
            header = check_batch(batch, now_ms, rules, zstd_allowed=zstd_allowed)
            if rules.compression is not None:
                if takes_long_to_store(header, rules):
                    raise LongBatchError(header, batch)
                header, batch = as_stored(header, batch, rules)
        except RecordError:
            self.refuse(batch)
            raise
        return self.append(header, batch, now_ms)

    def append_checked(self, header: BatchHeader, batch: Buffer, now_ms: int, *, starts_at_zero: bool) -> Appended:
        """Append a batch of a client that `records.check` has accepted, like `append`.

        Args:
            header: header of the batch, as stored.
            batch: the batch as stored, with offsets from 0.
            now_ms: wall-clock time.
            starts_at_zero: refuse an unknown producer whose first sequence is not 0 (transactions version 2).

        Raises:
            LogError: the producer's epoch or sequence is wrong, or its transaction forbids the batch.
        """
        if starts_at_zero and header.producer_id >= 0:
            self.producers.check_start(header.producer_id, header.producer_epoch, header.base_sequence)
        return self.append(header, batch, now_ms)

    def append(self, header: BatchHeader, batch: Buffer, now_ms: int) -> Appended:
        """Assign offsets to a batch and return its entry. It becomes visible in `on_durable`.

        The caller must submit the entry to the committer before the next append to this log. Otherwise the order of
        commits differs from the order of offsets.

        Args:
            header: from `check_batch`, or from `read_header` for a batch of the broker itself.
            batch: the bytes of the batch.
            now_ms: wall-clock time.

        Raises:
            LogError: the producer's epoch or sequence is wrong, or its transaction forbids the batch.
        """
        if self.is_given_up:
            raise self._given_up()
        _, length, _, _, _, attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, _ = header
        base_offset = self.log_end_offset
        last_offset = base_offset + last_delta
        if producer_id >= 0:
            # The usual case, without transactions, is inlined below: a call per batch costs throughput.
            if attributes & TRANSACTIONAL_BIT or self.producers.open:
                original = note_among_transactions(self.producers, header, base_offset, now_ms)
            else:
                last_sequence = (sequence + last_delta) & SEQUENCE_MASK
                original = self.producers.check(producer_id, epoch, sequence, last_sequence)
                if original is None:
                    produced = _NEW(ProducedBatch, (sequence, last_sequence, base_offset, last_offset, max_timestamp))
                    self.producers.record(producer_id, epoch, produced, now_ms)
            if original is not None:
                return self._duplicate(original)
        size = LENGTH_OVERHEAD + length
        parts: tuple[Buffer, ...]
        if size < JOIN_BELOW_BYTES:  # copied, because a view would keep the whole receive buffer in memory
            copied = batch if type(batch) is bytes else bytes(batch)
            parts = (restamped(header, copied, base_offset, self.leader_epoch),)
        else:
            parts = restamp(header, batch, base_offset, self.leader_epoch)
        entry = JournalEntry(self, base_offset, last_offset, max_timestamp, parts, size)
        # Only now, after every check: a refused batch takes no offsets.
        self.log_end_offset = last_offset + 1
        if max_timestamp < 0:
            self.untimed_ms = now_ms
            if not self.index.bases:
                self.untimed_since_ms = now_ms
        stamped = max_timestamp if attributes & APPEND_TIME_BIT else -1
        return _NEW(Appended, (entry, base_offset, last_offset, stamped, False, True))

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
        now_ms: int,
        version: int = 0,
    ) -> Appended:
        """Append the marker that ends a producer's transaction. Submit the entry like that of `append`.

        As in Apache Kafka, a marker is appended whether or not a transaction is open.

        Args:
            producer_epoch: the producer's new epoch.
            committed: True to commit, False to abort.
            coordinator_epoch: epoch of the transaction coordinator's partition.
            now_ms: wall-clock time.
            version: version of transactions. From 2 the marker has a higher epoch than the data; before, the same or a
                higher one.

        Raises:
            InvalidProducerEpoch: the epoch is too low for the producer, see `ProducerStates.check_marker`.
            TransactionCoordinatorFenced: a coordinator with a higher epoch has written a marker.
            GivenUp: another broker will lead the partition.
        """
        if self.is_given_up:
            raise self._given_up()
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, version)
        offset = self.log_end_offset
        marker = EndMarker(committed, coordinator_epoch)
        batch = marker_batch(
            producer_id, producer_epoch, marker, now_ms, base_offset=offset, leader_epoch=self.leader_epoch
        )
        if self.rules.append_time:
            header = with_times(read_header(batch), batch, now_ms, append_time=True)
            batch = restamped(header, batch, offset, self.leader_epoch)
        self.producers.record_marker(producer_id, producer_epoch, marker, offset, now_ms, now_ms)
        entry = JournalEntry(self, offset, offset, now_ms, (batch,), len(batch))
        self.log_end_offset = offset + 1
        return Appended(entry, offset, offset, now_ms if self.rules.append_time else -1)

    def _given_up(self) -> GivenUp:
        return GivenUp(f"{self.topic}-{self.partition} is led by another broker")

    @property
    def last_stable_offset(self) -> int:
        """The end of read_committed reads. No transaction below it is open, or could be open after a crash."""
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        # DeleteRecords may have raised the log start above an open transaction.
        return max(first_unstable, self.log_start_offset)

    def _duplicate(self, original: ProducedBatch) -> Appended:
        self.duplicates += 1
        return Appended(
            None,
            original.base_offset,
            original.last_offset,
            original.timestamp,
            duplicate=True,
            in_flight=original.last_offset >= self.high_watermark,
        )

    def refuse(self, batch: Buffer) -> None:
        """Note a client batch refused before `append`, so that later batches of its producer cannot overtake it."""
        if len(batch) < HEADER_SIZE:
            return
        try:
            header = read_header(batch)
        except RecordError:
            return
        if header.producer_id >= 0 and header.base_sequence >= 0:
            self.producers.refused(header.producer_id, header.producer_epoch, header.base_sequence)

    def on_durable(self, entry: JournalEntry) -> None:
        assert entry.base_offset >= self.high_watermark, "commits of a partition complete in offset order"
        assert entry.position >= 0, "an entry is written before it is durable"
        self.high_watermark = entry.last_offset + 1
        ended = self.producers.ended
        if ended is not None:
            ended.durable(self.high_watermark)
        # The index and the cache contain durable batches only, so no read can return anything else.
        self.index.append(entry.base_offset, entry.position, entry.size_bytes, entry.max_timestamp)
        self._cache.add(entry)

    def replay(self, header: BatchHeader, place: int, now_ms: int, batch: Buffer) -> None:
        """Apply a batch found in the journal during recovery.

        Args:
            place: journal position of the batch.

        Raises:
            JournalCorrupt: the batch begins below the end of the log, or has the leader epoch of earlier offsets.
            InvalidRecord: the batch has a marker that cannot be decoded.
        """
        base_offset, length, _, _, _, attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, _ = header
        leader_epoch = header.partition_leader_epoch
        if base_offset < self.log_end_offset:
            raise JournalCorrupt(f"{self.topic}-{self.partition}: offset {base_offset} is in the journal twice")
        if leader_epoch > self.leader_epoch:
            self.begin_epoch(leader_epoch, base_offset)
        elif leader_epoch != self.epochs.epoch_at(base_offset):
            raise JournalCorrupt(
                f"{self.topic}-{self.partition}: offset {base_offset} has the leader epoch {leader_epoch}, not"
                f" {self.epochs.epoch_at(base_offset)}"
            )
        last_offset = base_offset + last_delta
        self.log_end_offset = self.high_watermark = last_offset + 1
        self.index.append(base_offset, place, LENGTH_OVERHEAD + length, max_timestamp)
        # The write time before the restart is unknown. 0 is the oldest possible one, and `now_ms` the youngest.
        if max_timestamp < 0:
            self.untimed_since_ms, self.untimed_ms = 0, now_ms
        if producer_id >= 0:
            if attributes & TRANSACTIONAL_BIT:
                replay_transactional(self.producers, header, batch, now_ms)
                if self.producers.ended is not None:
                    self.producers.ended.durable(self.high_watermark)
            else:
                last_sequence = (sequence + last_delta) & SEQUENCE_MASK
                produced = _NEW(ProducedBatch, (sequence, last_sequence, base_offset, last_offset, max_timestamp))
                self.producers.record(producer_id, epoch, produced, now_ms)

    def attach(self, archived: ArchivedLog, producers: ProducerStates) -> None:
        """Start from the archived part of the log, before the journal is replayed."""
        assert not self.log_end_offset, "a log is attached once"
        self.archived = archived
        self.log_start_offset = self.stored_from = archived.manifest.log_start_offset
        self.log_end_offset = self.high_watermark = archived.end_offset
        self.producers = producers
        self._lead(archived.manifest.epochs)

    def begin_epoch(self, epoch: int, offset: int) -> None:
        """Begin to lead the log in a higher epoch (Kafka's `assignEpochStartOffset`).

        Args:
            epoch: later batches carry it.
            offset: at or above the end of the log.
        """
        assert offset >= self.log_end_offset, "the epoch of appended records never changes"
        self._lead(self.epochs.begun(epoch, offset))

    def _lead(self, epochs: LeaderEpochs) -> None:
        self.epochs, self.leader_epoch = epochs, epochs.latest

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return an epoch and its end offset, as of the visible records; see `LeaderEpochs.end_of`."""
        return self.epochs.end_of(epoch, self.log_start_offset, self.high_watermark)

    def on_archived(self, archived: ArchivedLog) -> None:
        """Replace the archived part after a durable edit, and drop archived batches from the index."""
        self.archived = archived
        if self.producers.ended is not None:
            self.producers.ended.archived(archived.end_offset)
        dropped = self.index.drop_before(archived.end_offset)
        if dropped:
            self._dropped_batches += dropped
            # The first untimed batch may be among the dropped ones, and only the time of the last one is known.
            self.untimed_since_ms = self.untimed_ms
        self.stored_from = archived.manifest.log_start_offset
        self.epochs = self.epochs.since(archived.manifest.first_offset)
        self.raise_log_start(self.stored_from)

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset, up to the high watermark; never lower it."""
        self.log_start_offset = max(self.log_start_offset, min(offset, self.high_watermark))

    @property
    def size_bytes(self) -> int:
        return self.index.size_bytes + (self.archived.size_bytes if self.archived is not None else 0)

    @property
    def appended_bytes(self) -> int:
        """The bytes that became durable since startup, including replayed ones."""
        return self.index.totals[-1]

    @property
    def appended_batches(self) -> int:
        return self._dropped_batches + len(self.index)

    def bytes_available(self, offset: int, *, committed: bool = False) -> int:
        """Return the bytes that an unlimited read at the offset would return; 0 outside the readable log.

        The number is an estimate for archived batches.
        """
        end_offset = self.last_stable_offset if committed else self.high_watermark
        if not self.log_start_offset <= offset < end_offset:
            return 0
        behind = self._bytes_from(end_offset) if end_offset < self.high_watermark else 0
        return self._bytes_from(offset) - behind

    def _bytes_from(self, offset: int) -> int:
        index = self.index
        if self.archived is not None and offset < self.archived.end_offset:
            return self.archived.bytes_from(offset) + index.size_bytes
        return index.totals[-1] - index.totals[max(0, index.find(offset))]

    def lend(self, offset: int, bytes_max: int, *, committed: bool) -> LentBatches | None:
        """Lend archived batches that were verified before, instead of `read`; None if they must be read."""
        archived = self.archived
        if archived is None or not self.log_start_offset <= offset < archived.end_offset:
            return None
        # A read that ends within the archive is cut by the headers of its batches.
        if archived.end_offset > (self.last_stable_offset if committed else self.high_watermark):
            return None
        return archived.lend(offset, bytes_max)

    def read(self, offset: int, bytes_max: int, *, at_least_one: bool, committed: bool = False) -> ReadResult:
        """Read whole batches, starting with the one that contains `offset`.

        Fewer batches than requested do not mean the end of the log.

        Args:
            offset: from the log start offset to the log end offset.
            bytes_max: limit on the size of all batches.
            at_least_one: return the first batch even if it is larger than `bytes_max`.
            committed: end at the last stable offset and not at the high watermark.

        Raises:
            OffsetOutOfRange: the offset is outside of the log.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset}..{self.log_end_offset} of {self.topic}"
                f"-{self.partition}"
            )
        end_offset = self.last_stable_offset if committed else self.high_watermark
        if offset >= end_offset:
            return ReadResult()
        if self.archived is not None and offset < self.archived.end_offset:
            result = self.archived.read(offset, bytes_max, at_least_one=at_least_one)
            if result is not None:
                return cut_at(result, end_offset) if end_offset < self.archived.end_offset else result
        index = self.index
        if not index.bases:
            return ReadResult()
        first = max(0, index.find(offset))
        end = index.run_end(first, bytes_max, at_least_one=at_least_one)
        if end_offset < self.high_watermark:
            end = min(end, index.find(end_offset - 1) + 1)
        if end <= first:
            return ReadResult()
        result = self.read_batches(first, end)
        if result.cold is not None:
            return ReadResult(cold=self.or_from_archive(result.cold, index.bases[first], bytes_max, end_offset))
        return result

    def or_from_archive(
        self, cold: ColdRead[list[Buffer]], offset: int, bytes_max: int, end_offset: int
    ) -> ColdRead[list[Buffer]]:
        """Return a cold read that falls back to the archive if the journal position is recycled before the read runs.

        The fallback returns no batches if they were deleted in the meantime.
        """

        def work() -> list[Buffer]:
            try:
                return cold()
            except RecycledError:
                archived = self.archived  # read once: this is a thread, and the event loop may replace it at any time
                result = None if archived is None else archived.read(offset, bytes_max, at_least_one=True)
                if result is None:
                    return []  # deleted in the meantime
                result = cut_at(result, end_offset)
                return result.parts if result.cold is None else result.cold()

        return ColdRead(work, cold.size_bytes)

    def aborted_transactions(
        self, first_offset: int, end_offset: int
    ) -> list[AbortedTransaction] | ColdRead[list[AbortedTransaction]]:
        """Return the transactions with a record below `end_offset` and their marker at or above `first_offset`.

        They are in marker order. If the archive may have some of them, the result is the ColdRead that reads them.
        """
        return self.aborted_view(first_offset).find(first_offset, end_offset)

    def aborted_view(self, offset: int) -> AbortedView:
        """Return the current aborted transactions for readers at or above an offset."""
        ended = self.producers.ended
        return AbortedView(self.archived, () if ended is None else ended.aborted(offset, self.last_stable_offset))

    def read_batches(self, first: int, end: int) -> ReadResult:
        for source in self._sources:
            result = source.read(self, first, end)
            if result is not None:
                return result
        raise AssertionError(f"no source has batch {first} of {self!r}")

    def offset_for_timestamp(self, timestamp: int) -> Found:
        return self._time_search().offset_for_timestamp(timestamp)

    def max_timestamp(self) -> Found:
        return self._time_search().max_timestamp()

    def _time_search(self) -> TimeSearch:
        def read_batch(number: int) -> ReadResult:
            result = self.read_batches(number, number + 1)
            if result.cold is None:
                return result
            return ReadResult(cold=self.or_from_archive(result.cold, self.index.bases[number], 0, self.high_watermark))

        return TimeSearch(self.archived, self.index, self.log_start_offset, self.stored_from, read_batch)
