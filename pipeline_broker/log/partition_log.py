"""The log of one partition: an index over the journal, the producers' state, and the offsets.

Rules of this file: everything here runs on one thread. What is visible is durable: reads end at the high watermark,
which only `on_durable` moves, in order. Offsets are given out at append and never taken back: after an entry failed
nothing more is acknowledged anyway (see journal).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pipeline_broker.log.entry import LEADER_EPOCH, Appended, Buffer, JournalEntry
from pipeline_broker.log.errors import JournalCorrupt, OffsetOutOfRange, RecycledError
from pipeline_broker.log.frame import JOIN_BELOW_BYTES, entry_key
from pipeline_broker.log.offset_index import OffsetIndex
from pipeline_broker.log.policies import DEFAULT_POLICIES, LogPolicies
from pipeline_broker.log.producer_state import SEQUENCE_MASK, ProducedBatch, ProducerStates
from pipeline_broker.log.reading import BatchSource, ColdRead, ReadResult, TimestampedOffset
from pipeline_broker.log.tail_cache import TailCache
from pipeline_broker.records.batch import (
    APPEND_TIME_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    iterate_batches,
    read_header,
    restamp,
    restamped,
)
from pipeline_broker.records.check import DEFAULT_RULES, Rules, as_stored, check_batch
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import iterate_records

if TYPE_CHECKING:
    from pipeline_broker.log.archive.archived_log import ArchivedLog

Found: TypeAlias = TimestampedOffset | ColdRead[TimestampedOffset | None] | None
"""What a search by time has found, or the work that finds it, or nothing."""
_NEW = tuple.__new__  # straight to the tuple's constructor: half the time of a named tuple's own, for every batch


class PartitionLog:
    """One partition of one topic."""

    __slots__ = (
        "_cache",
        "_dropped_batches",
        "_sources",
        "archived",
        "duplicates",
        "entry_key",
        "high_watermark",
        "index",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "policies",
        "producers",
        "roll_seed",
        "rules",
        "tail",
        "topic",
        "topic_id",
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
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.rules = rules
        self.policies = policies
        self.entry_key = entry_key(topic_id, partition)
        self.roll_seed = b""  # from which the jitter of its segments is drawn
        self.log_start_offset = 0
        self.log_end_offset = 0  # assigned
        self.high_watermark = 0  # durable, hence visible
        self.index = OffsetIndex()
        self.producers = ProducerStates()
        self.duplicates = 0  # batches that came again and were not appended
        self.tail: dict[int, JournalEntry] = {}  # the cache's entries of this log
        self.archived: ArchivedLog | None = None  # what the archive holds: all in front of the index
        self._dropped_batches = 0  # from the index, since the start
        self._cache = cache
        self._sources = sources

    @property
    def folder(self) -> str:
        """The name of its folder in the archive, as Kafka calls the directory of a partition."""
        return f"{self.topic}-{self.partition}"

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic}-{self.partition} {self.log_start_offset}..{self.log_end_offset}>"

    def produce(self, batch: Buffer, now_ms: int, *, zstd_allowed: bool = True) -> Appended:
        """Check a client's batch and append it; raises RecordError or LogError, both with `error_name`."""
        try:
            header = check_batch(batch, now_ms, self.rules, zstd_allowed=zstd_allowed)
            if self.rules.compression is not None:
                header, batch = as_stored(header, batch, self.rules)
        except RecordError:
            self.refuse(batch)
            raise
        return self.append(header, batch, now_ms)

    def append(self, header: BatchHeader, batch: Buffer, now_ms: int) -> Appended:
        """Give the batch its offsets. The header is `check_batch`'s, or `read_header`'s of a batch of our own.

        The entry must be handed to the committer before anything else is appended to this log, or durable order and
        offset order differ.
        """
        _, length, _, _, _, attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, _ = header
        base_offset = self.log_end_offset
        last_offset = base_offset + last_delta
        if producer_id >= 0:
            last_sequence = (sequence + last_delta) & SEQUENCE_MASK
            original = self.producers.check(producer_id, epoch, sequence, last_sequence)
            if original is not None:
                return self._duplicate(original)
            produced = _NEW(ProducedBatch, (sequence, last_sequence, base_offset, last_offset, max_timestamp))
            self.producers.record(producer_id, epoch, produced, now_ms)
        size = LENGTH_OVERHEAD + length
        parts: tuple[Buffer, ...]
        if size < JOIN_BELOW_BYTES:  # as a view it would keep the whole receive buffer in memory
            parts = (restamped(header, batch if type(batch) is bytes else bytes(batch), base_offset, LEADER_EPOCH),)
        else:
            parts = restamp(header, batch, base_offset, LEADER_EPOCH)
        entry = JournalEntry(self, base_offset, last_offset, max_timestamp, parts, size)
        self.log_end_offset = last_offset + 1
        stamped = max_timestamp if attributes & APPEND_TIME_BIT else -1
        return _NEW(Appended, (entry, base_offset, last_offset, stamped, False, True))

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
        """A client's batch was refused before `append`: what its producer sent behind it must not slip in front."""
        if len(batch) < HEADER_SIZE:
            return
        try:
            header = read_header(batch)
        except RecordError:
            return
        if header.producer_id >= 0 and header.base_sequence >= 0:
            self.producers.refused(header.producer_id, header.producer_epoch, header.base_sequence)

    def on_durable(self, entry: JournalEntry) -> None:
        """The entry's commit completed; called in the order of the commits."""
        assert entry.base_offset >= self.high_watermark, "commits of a partition complete in offset order"
        assert entry.position >= 0, "an entry is written before it is durable"
        self.high_watermark = entry.last_offset + 1
        self.index.append(entry.base_offset, entry.position, entry.size_bytes, entry.max_timestamp)
        self._cache.add(entry)

    def replay(self, header: BatchHeader, place: int, now_ms: int) -> None:
        """A batch found in the journal at start."""
        base_offset, length, _, _, _, _, last_delta, _, max_timestamp, producer_id, epoch, sequence, _ = header
        if base_offset < self.log_end_offset:
            raise JournalCorrupt(f"{self.topic}-{self.partition}: offset {base_offset} is there twice")
        last_offset = base_offset + last_delta
        self.log_end_offset = self.high_watermark = last_offset + 1
        self.index.append(base_offset, place, LENGTH_OVERHEAD + length, max_timestamp)
        if producer_id >= 0 and sequence >= 0:
            last_sequence = (sequence + last_delta) & SEQUENCE_MASK
            produced = _NEW(ProducedBatch, (sequence, last_sequence, base_offset, last_offset, max_timestamp))
            self.producers.record(producer_id, epoch, produced, now_ms)

    def attach(self, archived: ArchivedLog, producers: ProducerStates) -> None:
        """Begin with what the archive holds, before anything is replayed."""
        assert not self.log_end_offset, "a log is attached once"
        self.archived = archived
        self.log_start_offset = archived.manifest.log_start_offset
        self.log_end_offset = self.high_watermark = archived.end_offset
        self.producers = producers

    def on_archived(self, archived: ArchivedLog) -> None:
        """The archive holds more, or less, than before."""
        self.archived = archived
        self._dropped_batches += self.index.drop_before(archived.end_offset)
        self.raise_log_start(archived.manifest.log_start_offset)

    def raise_log_start(self, offset: int) -> None:
        """Show nothing before the offset any more; the start never falls."""
        self.log_start_offset = max(self.log_start_offset, min(offset, self.high_watermark))

    @property
    def size_bytes(self) -> int:
        """All visible batches."""
        return self.index.size_bytes + (self.archived.size_bytes if self.archived is not None else 0)

    @property
    def appended_bytes(self) -> int:
        """All batches that became durable since the start, and those that were replayed."""
        return self.index.totals[-1]

    @property
    def appended_batches(self) -> int:
        """How many they are."""
        return self._dropped_batches + len(self.index)

    def bytes_available(self, offset: int) -> int:
        """What a reader at the offset could get if nothing limited it; of what is archived, about so many."""
        index = self.index
        if not self.log_start_offset <= offset < self.high_watermark:
            return 0
        if self.archived is not None and offset < self.archived.end_offset:
            return self.archived.bytes_from(offset) + index.size_bytes
        return index.totals[-1] - index.totals[max(0, index.find(offset))]

    def read(self, offset: int, bytes_max: int, *, at_least_one: bool) -> ReadResult:
        """Whole batches from the one that holds `offset` on, at most `bytes_max` bytes, below the high watermark.

        With `at_least_one` the first batch comes whatever its size. Fewer than asked for is no sign of the end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset}..{self.log_end_offset} of {self.topic}"
                f"-{self.partition}"
            )
        if offset >= self.high_watermark:
            return ReadResult()
        if self.archived is not None and offset < self.archived.end_offset:
            result = self.archived.read(offset, bytes_max, at_least_one=at_least_one)
            if result is not None:
                return result
        index = self.index
        if not index.bases:
            return ReadResult()
        first = max(0, index.find(offset))
        end = index.run_end(first, bytes_max, at_least_one=at_least_one)
        if end == first:
            return ReadResult()
        result = self._read_batches(first, end)
        if result.cold is not None:
            return ReadResult(cold=self._or_from_archive(result.cold, index.bases[first], bytes_max))
        return result

    def _or_from_archive(self, cold: ColdRead[list[Buffer]], offset: int, bytes_max: int) -> ColdRead[list[Buffer]]:
        """A read of the journal that goes on in the archive when that has taken over meanwhile."""

        def work() -> list[Buffer]:
            try:
                return cold()
            except RecycledError:
                result = None
                if (
                    self.archived is not None
                ):  # one look: the event loop may replace it by a newer one, not take it away
                    result = self.archived.read(offset, bytes_max, at_least_one=True)
                if result is None:
                    return []  # below the start by now
                return result.parts if result.cold is None else result.cold()

        return ColdRead(work, cold.size_bytes)

    def _read_batches(self, first: int, end: int) -> ReadResult:
        for source in self._sources:
            result = source.read(self, first, end)
            if result is not None:
                return result
        raise AssertionError(f"no source has batch {first} of {self!r}")

    def offset_for_timestamp(self, timestamp: int) -> Found:
        """The first record at or after the time that is not in front of the start; None when there is none."""
        in_journal = self._search_from_start(timestamp)
        if self.archived is None:
            return in_journal
        return _or_else(self.archived.offset_for_timestamp(timestamp, self.log_start_offset), in_journal)

    def _search_from_start(self, timestamp: int) -> Found:
        """The same in what only the journal holds."""
        start = self.log_start_offset
        first = max(0, self.index.find(start))
        number = self.index.first_since(timestamp, first)
        found = self._search(number, timestamp, start)
        if number is None or number > first or self.index.bases[first] >= start:
            return found
        # The start lies within the batch: perhaps only what is in front of it is that late.
        return _or_else(found, self._search(self.index.first_since(timestamp, first + 1), timestamp, start))

    def max_timestamp(self) -> Found:
        """The first record with the largest timestamp; None in an empty log.

        As in Apache Kafka it is looked for in all that is stored: it may lie in front of the start.
        """
        latest = self.index.timestamps[-1] if self.index.timestamps else None
        archived = self.archived if self.archived is not None and self.archived.manifest.segments else None
        if archived is not None and (latest is None or archived.max_timestamp >= latest):
            return archived.offset_for_timestamp(archived.max_timestamp, 0)
        if latest is None:
            return None
        return self._search(self.index.latest(), latest)

    def _search(self, number: int | None, timestamp: int, start_offset: int = 0) -> Found:
        if number is None:
            return None
        result = self._read_batches(number, number + 1)
        if result.cold is None:
            return _first_record_since(result.parts, timestamp, start_offset)
        cold = self._or_from_archive(result.cold, self.index.bases[number], 0)
        return ColdRead(lambda: _first_record_since(cold(), timestamp, start_offset), cold.size_bytes)


def _or_else(found: Found, other: Found) -> Found:
    """What was found, or else what the other search has found."""
    if not isinstance(found, ColdRead):
        return other if found is None else found

    def work() -> TimestampedOffset | None:
        first = found()
        if first is not None:
            return first
        return other() if isinstance(other, ColdRead) else other

    return ColdRead(work, found.size_bytes)


def _first_record_since(parts: list[Buffer], timestamp: int, start_offset: int) -> TimestampedOffset | None:
    for header, batch in iterate_batches(b"".join(parts)):
        for record in iterate_records(batch, header):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampedOffset(record.timestamp, record.offset, LEADER_EPOCH)
    return None
