"""A share partition: records that a share group has in flight, and the members that acquired them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.group_settings import ShareGroupSettings
from pipeline_broker.state.share_partitions.acquiring import acquire_runs
from pipeline_broker.state.share_partitions.messages import (
    AcknowledgeError,
    AcknowledgementBatch,
    Acquired,
    AcquireLimits,
    FetchedBatch,
    StateBatch,
    StateChange,
    Undelivered,
)
from pipeline_broker.state.share_partitions.record_state import AFTER, TERMINAL, AcknowledgeType, RecordState
from pipeline_broker.state.share_partitions.runs import Run, Runs, Span
from pipeline_broker.state.share_partitions.state_batches import joined_from

__all__ = ["SharePartition"]

NEVER_MS = 2**63 - 1
# Kafka's messages, from `ShareGroupDLQManager`.
REJECTED = "Offset rejected by client."
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


class SharePartition:
    """The delivery state of one partition for one share group.

    The window `start_offset`..`end_offset` is all it remembers. Records before the window are complete, records after
    it have never been acquired.

    Changes that must survive a restart are returned as a StateChange, which the caller appends. Acquisitions are not
    among them, as in Kafka: after a restart, acquired records are available again.

    A change counts at once for later acquisitions, before it is durable. The journal keeps the order, so nothing that
    follows can be durable without it. The member gets its response only once the change is durable.

    Args:
        start_offset: first offset of the window.
        settings: settings of the group; callers may replace them at any time.
        batches: persisted states of records at and after the start offset.

    Attributes:
        runs: the window.
        next_lock_ms: a time until which `expire_locks` has nothing to do; no lock expires earlier.
    """

    __slots__ = ("_available_from", "_undelivered", "next_lock_ms", "runs", "settings", "start_offset")

    def __init__(self, start_offset: int, settings: ShareGroupSettings, batches: Iterable[StateBatch] = ()) -> None:
        self.settings = settings
        self.start_offset = start_offset
        self.runs = Runs()
        self.next_lock_ms = NEVER_MS
        self._available_from = start_offset  # a lower bound of the first available offset
        self._undelivered: list[Undelivered] = []  # of the current change
        for batch in sorted(batches):
            self._restore(batch)
        self._advance_start()
        if self.runs:
            self.runs.join(self.runs.first, self.runs.last)

    def _restore(self, batch: StateBatch) -> None:
        first = max(batch.first, self.end_offset + 1)
        if first > batch.last:
            return
        # No state is stored for offsets between batches: a member had acquired them and never acknowledged.
        if first > self.end_offset + 1:
            self.runs.append(Run(self.end_offset + 1, first - 1, RecordState.AVAILABLE, 0))
        span = Span(first, batch.last)
        self.runs.append(Run(first, batch.last, RecordState(batch.state), batch.delivery_count, span=span))

    @property
    def end_offset(self) -> int:
        """The last offset in flight; `start_offset - 1` for an empty window."""
        return self.runs.last if self.runs else self.start_offset - 1

    @property
    def in_flight(self) -> int:
        return self.end_offset - self.start_offset + 1

    @property
    def delivery_complete_count(self) -> int:
        """The number of records in the window that are acknowledged or archived."""
        return self.runs.done

    def next_offset(self) -> int | None:
        """Return the first offset that can be acquired; None while the window is full."""
        # `_available_from` remembers the result, so that repeated fetches do not scan the window from its start.
        for run in self.runs.overlapping(self._available_from, self.end_offset):
            if run.state is RecordState.AVAILABLE:
                self._available_from = max(run.first, self._available_from)
                return self._available_from
        self._available_from = self.end_offset + 1
        return self._available_from if self.in_flight < self.settings.partition_max_record_locks else None

    def last_wanted(self, records_max: int) -> int:
        """Return the last offset to read for a fetch of `records_max` records.

        Records that are not available do not count. The result is the end of the span that the limit lies in, because
        an acquisition may round up to it.
        """
        left = records_max
        for run in self.runs.overlapping(self._available_from, self.end_offset):
            if run.state is RecordState.AVAILABLE:
                left -= run.size
                if left <= 0:
                    return run.last if run.span is None else run.span.last
        return self.end_offset + left

    # Acquiring

    def acquire(
        self, member_id: str, read_from: int, batches: Sequence[FetchedBatch], limits: AcquireLimits, now_ms: int
    ) -> list[Acquired]:
        """Acquire records for a member, up to its limits; return them, or an empty list if none can be acquired.

        Does nothing if `batches` is empty, the limit is 0 records, or all batches end below the start offset.
        Otherwise archives available records that the log has lost, between `read_from` and the first batch.

        Args:
            read_from: the offset at which the log was read.
            batches: batches of the log, in offset order.
            now_ms: start of the locks.
        """
        if not batches or limits.records_max <= 0 or batches[-1].last < self.start_offset:
            return []
        self._archive_missing(read_from, batches[0].first)
        acquired = acquire_runs(
            self.runs, self.start_offset, self.settings, member_id, read_from, batches, limits, now_ms
        )
        if acquired:
            self.next_lock_ms = min(self.next_lock_ms, now_ms + self.settings.record_lock_duration_ms)
        self._advance_start()
        return acquired

    def _archive_missing(self, read_from: int, first_found: int) -> None:
        last = first_found - 1
        if last < read_from:
            return
        # Compaction or retention deleted these records before they were delivered. Acquired ones stay with their
        # members.
        for run in self.runs.cut(read_from, last):
            if run.state is RecordState.AVAILABLE:
                self.runs.move(run, RecordState.ARCHIVED)
        if last > self.end_offset:
            self.runs.append(Run(self.end_offset + 1, last, RecordState.ARCHIVED, 0))
        self.runs.join(read_from, last)
        self._advance_start()

    # Acknowledging

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch], now_ms: int) -> StateChange | None:
        """Apply acknowledgements of acquired records, either all or none.

        Args:
            member_id: the member that acquired them.
            batches: in offset order, without overlaps; each has one type, or one type per offset.
            now_ms: start of renewed locks.

        Returns:
            the change that must be durable before the member gets its response; None for renewals only.

        Raises:
            AcknowledgeError: the member has not acquired one of the records, or two batches contain the same record.
                No record has changed.
        """
        last_offset = -1
        # Check everything first, so that an error leaves all records as they are.
        for batch in batches:
            self._check(member_id, batch)
            if self.start_offset <= batch.first <= last_offset:  # an earlier batch acknowledged it already
                raise AcknowledgeError(ErrorCode.INVALID_RECORD_STATE, "Unable to acknowledge records for the batch")
            last_offset = batch.last
        changed: list[StateBatch] = []
        for batch in batches:
            for first, last, kind in _pieces(batch):
                changed += self._settle(max(first, self.start_offset), last, kind, now_ms)
        return self._change(changed)

    def _check(self, member_id: str, batch: AcknowledgementBatch) -> None:
        """Raise Kafka's error unless the member has acquired all these records.

        Records before the window are complete and may be acknowledged again.
        """
        if batch.last < self.start_offset:
            return
        first = max(batch.first, self.start_offset)
        if not self.runs:
            raise AcknowledgeError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        if first > self.end_offset:
            raise AcknowledgeError(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The first offset in request is past acquired records.",
            )
        if batch.last > self.end_offset:
            raise AcknowledgeError(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The last offset in request is past acquired records.",
            )
        for run in self.runs.overlapping(first, batch.last):
            if run.state is not RecordState.ACQUIRED:
                raise AcknowledgeError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "The batch cannot be acknowledged. The batch is not in the acquired state.",
                )
            if run.member_id != member_id:
                raise AcknowledgeError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")

    def _settle(self, first: int, last: int, kind: AcknowledgeType, now_ms: int) -> list[StateBatch]:
        """Apply one type of acknowledgement; return the changed records, without renewed ones."""
        if first > last:
            return []
        changed = []
        for run in self.runs.cut(first, last):
            after = AFTER[run.state, kind]
            if after is RecordState.ACQUIRED:
                run.lock_until_ms = now_ms + self.settings.record_lock_duration_ms
                # The group's lock duration may have become shorter since the records were acquired.
                self.next_lock_ms = min(self.next_lock_ms, run.lock_until_ms)
                continue
            if kind is AcknowledgeType.REJECT:
                self._undelivered.append(Undelivered(run.first, run.last, run.delivery_count, REJECTED))
            self._leave(run, after)
            changed.append(StateBatch(run.first, run.last, run.state, run.delivery_count))
        self.runs.join(first, last)
        return changed

    def _leave(self, run: Run, after: RecordState) -> None:
        """Move a run out of ACQUIRED; archive it instead of making it available if it was delivered too often."""
        if after is RecordState.AVAILABLE:
            if run.delivery_count >= self.settings.delivery_count_limit:
                after = RecordState.ARCHIVED
                self._undelivered.append(Undelivered(run.first, run.last, run.delivery_count, DELIVERED_TOO_OFTEN))
            else:
                self._available_from = min(self._available_from, run.first)
        self.runs.move(run, after)

    # Returns without an acknowledgement

    def expire_locks(self, now_ms: int) -> StateChange | None:
        """Make records with expired locks available.

        Records that were delivered too often are archived instead. Returns the change to append; None if no lock has
        expired.
        """
        # No lock has expired yet, so the runs need no visit.
        if now_ms < self.next_lock_ms:
            return None
        due = [run for run in self.runs if run.state is RecordState.ACQUIRED and run.lock_until_ms <= now_ms]
        for run in due:
            self._leave(run, RecordState.AVAILABLE)
        locks = (run.lock_until_ms for run in self.runs if run.state is RecordState.ACQUIRED)
        self.next_lock_ms = min(locks, default=NEVER_MS)
        return self._returned(due)

    def release(self, member_id: str) -> StateChange | None:
        """Make all records of a member available after its session was closed.

        Records that were delivered too often are archived instead. Returns the change to append; None if the member
        holds no records.
        """
        # Only acquired runs have a member. The delivery counts, as in Kafka 4.3.
        held = [run for run in self.runs if run.member_id == member_id]
        for run in held:
            self._leave(run, RecordState.AVAILABLE)
        return self._returned(held)

    def _returned(self, runs: Sequence[Run]) -> StateChange | None:
        changed = [StateBatch(run.first, run.last, run.state, run.delivery_count) for run in runs]
        if self.runs:
            self.runs.join(self.runs.first, self.runs.last)
        return self._change(changed)

    def raise_start(self, log_start_offset: int) -> None:
        """Move the window to a higher log start offset: earlier records are complete, even acquired ones.

        Does nothing if the offset is not above the start offset.
        """
        if log_start_offset <= self.start_offset:
            return
        self.runs.drop_before(log_start_offset)
        self.start_offset = log_start_offset
        self._available_from = max(self._available_from, log_start_offset)
        self._advance_start()

    # The start of the window

    def _advance_start(self) -> None:
        while self.runs and self.runs.head.state in TERMINAL:
            self.start_offset = self.runs.head.last + 1
            self.runs.drop_before(self.start_offset)
        self._available_from = max(self._available_from, self.start_offset)

    def _change(self, changed: Sequence[StateBatch]) -> StateChange | None:
        if not changed:
            return None
        # First, because the change must not name records before the new start offset.
        self._advance_start()
        undelivered, self._undelivered = tuple(self._undelivered), []
        batches = joined_from(self.start_offset, changed)
        return StateChange(self.start_offset, batches, self.delivery_complete_count, undelivered)


def _pieces(batch: AcknowledgementBatch) -> Iterable[tuple[int, int, AcknowledgeType]]:
    if len(batch.types) == 1:
        yield batch.first, batch.last, AcknowledgeType(batch.types[0])
        return
    first = batch.first
    for offset in range(batch.first, batch.last + 1):
        index = offset - batch.first
        if offset == batch.last or batch.types[index + 1] != batch.types[index]:
            yield first, offset, AcknowledgeType(batch.types[index])
            first = offset + 1
