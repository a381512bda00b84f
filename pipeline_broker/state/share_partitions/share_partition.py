"""A share partition: which records of a partition a share group has in flight, and who has acquired them.

Rules of this file: see `state/outcome.py` and the table in `record_state`. The window `start_offset`..`end_offset` is
all that is remembered: in front of it everything is done with, behind it nothing was acquired yet. Changes that must
outlive a restart are returned as a StateChange, for the caller to append; acquisitions are not among them, as in
Kafka: after a restart what was acquired is available again. A change counts at once for what is acquired next, because
the journal keeps the order: nothing that follows can be durable without it. The member that asked is told when it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline_broker.state.share_partitions.acquiring import acquire_runs
from pipeline_broker.state.share_partitions.messages import (
    AcknowledgeError,
    AcknowledgementBatch,
    Acquired,
    AcquireLimits,
    DeliveryRules,
    FetchedBatch,
    StateBatch,
    StateChange,
)
from pipeline_broker.state.share_partitions.record_state import AFTER, TERMINAL, AcknowledgeType, RecordState
from pipeline_broker.state.share_partitions.runs import Run, Runs, Span
from pipeline_broker.state.share_partitions.state_batches import joined_from
from pipeline_broker.wire.error import ErrorCode

__all__ = ["SharePartition"]

NEVER_MS = 2**63 - 1


class SharePartition:
    """One partition of one group.

    Args:
        start_offset: where the group begins, or was.
        batches: what is known of records from there on.
        rules: the group's settings; may be replaced at any time.

    Attributes:
        runs: the window.
        next_lock_ms: when `expire_locks` has something to look at; never late, perhaps early.
    """

    __slots__ = ("_available_from", "next_lock_ms", "rules", "runs", "start_offset")

    def __init__(
        self, start_offset: int, batches: Iterable[StateBatch] = (), rules: DeliveryRules | None = None
    ) -> None:
        self.rules = rules or DeliveryRules()
        self.start_offset = start_offset
        self.runs = Runs()
        self.next_lock_ms = NEVER_MS
        self._available_from = start_offset  # nothing in front of it is available
        for batch in sorted(batches):
            self._restore(batch)
        self._advance_start()
        if self.runs:
            self.runs.join(self.runs.first, self.runs.last)

    def _restore(self, batch: StateBatch) -> None:
        """Take over a batch; offsets between batches were acquired by somebody who never said what became of them."""
        first = max(batch.first, self.end_offset + 1)
        if first > batch.last:
            return
        if first > self.end_offset + 1:
            self.runs.append(Run(self.end_offset + 1, first - 1, RecordState.AVAILABLE, 0))
        span = Span(first, batch.last)
        self.runs.append(Run(first, batch.last, RecordState(batch.state), batch.delivery_count, span=span))

    @property
    def end_offset(self) -> int:
        """The last offset in flight; the one in front of the start while there is none."""
        return self.runs.last if self.runs else self.start_offset - 1

    @property
    def in_flight(self) -> int:
        """How many offsets the window spans."""
        return self.end_offset - self.start_offset + 1

    @property
    def delivery_complete_count(self) -> int:
        """How many records of the window are done with."""
        return self.runs.done

    def next_offset(self) -> int | None:
        """The first offset that can be acquired; None while the window is full."""
        for run in self.runs.overlapping(self._available_from, self.end_offset):
            if run.state is RecordState.AVAILABLE:
                self._available_from = max(run.first, self._available_from)
                return self._available_from
        self._available_from = self.end_offset + 1
        return self._available_from if self.in_flight < self.rules.record_locks_max else None

    def last_wanted(self, records_max: int) -> int:
        """How far must be read for a fetch of so many records, at least: what is not available is read over.

        The end of the span that the limit lies in, since the limit may be rounded up to it.
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
        """Give a member records that were read.

        Args:
            read_from: the offset that was read at; what is missing between it and the batches is gone from the log.
            batches: what the log has, in offset order.
            wanted: how many, and how they are counted.
            now_ms: the locks begin now.
        """
        if not batches or limits.records_max <= 0 or batches[-1].last < self.start_offset:
            return []
        self._archive_missing(read_from, batches[0].first)
        acquired = acquire_runs(self.runs, self.start_offset, self.rules, member_id, read_from, batches, limits, now_ms)
        if acquired:
            self.next_lock_ms = min(self.next_lock_ms, now_ms + self.rules.lock_duration_ms)
        self._advance_start()
        return acquired

    def _archive_missing(self, read_from: int, first_found: int) -> None:
        """Compaction, or deletion, has taken what was to be read: it is not delivered any more."""
        last = first_found - 1
        if last < read_from:
            return
        for run in self.runs.cut(read_from, last):
            if run.state is RecordState.AVAILABLE:
                self.runs.move(run, RecordState.ARCHIVED)
        if last > self.end_offset:
            self.runs.append(Run(self.end_offset + 1, last, RecordState.ARCHIVED, 0))
        self.runs.join(read_from, last)
        self._advance_start()

    # Acknowledging

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch], now_ms: int) -> StateChange | None:
        """Say what became of acquired records, all of it or nothing.

        Args:
            member_id: who has acquired them.
            batches: in offset order, without overlaps, each with one type or as many types as offsets.
            now_ms: renewed locks begin now.

        Returns:
            what must be durable before the member is told; None where nothing must.

        Raises:
            AcknowledgeError: some record is not acquired by this member; nothing was changed.
        """
        last_offset = -1
        for batch in batches:
            self._check(member_id, batch)
            if self.start_offset <= batch.first <= last_offset:  # said already: it is not acquired any more
                raise AcknowledgeError(ErrorCode.INVALID_RECORD_STATE, "Unable to acknowledge records for the batch")
            last_offset = batch.last
        changed: list[StateBatch] = []
        for batch in batches:
            for first, last, kind in _pieces(batch):
                changed += self._settle(max(first, self.start_offset), last, kind, now_ms)
        return self._change(changed)

    def _check(self, member_id: str, batch: AcknowledgementBatch) -> None:
        """Refuse with Kafka's errors; what is in front of the start is done with and may be acknowledged again."""
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
        """Move acquired records as the table says; returns what changed, not what was renewed."""
        if first > last:
            return []
        changed = []
        for run in self.runs.cut(first, last):
            after = AFTER[run.state, kind]
            if after is RecordState.ACQUIRED:
                run.lock_until_ms = now_ms + self.rules.lock_duration_ms
                self.next_lock_ms = min(self.next_lock_ms, run.lock_until_ms)  # locks may have become shorter
                continue
            self._leave(run, after)
            changed.append(StateBatch(run.first, run.last, run.state, run.delivery_count))
        self.runs.join(first, last)
        return changed

    def _leave(self, run: Run, after: RecordState) -> None:
        """A run is not acquired any more; what was delivered too often does not come back."""
        if after is RecordState.AVAILABLE:
            if run.delivery_count >= self.rules.delivery_count_max:
                after = RecordState.ARCHIVED
            else:
                self._available_from = min(self._available_from, run.first)
        self.runs.move(run, after)

    # Coming back without the member

    def expire_locks(self, now_ms: int) -> StateChange | None:
        """Take back what members have had for too long."""
        if now_ms < self.next_lock_ms:
            return None
        due = [run for run in self.runs if run.state is RecordState.ACQUIRED and run.lock_until_ms <= now_ms]
        for run in due:
            self._leave(run, RecordState.AVAILABLE)
        locks = (run.lock_until_ms for run in self.runs if run.state is RecordState.ACQUIRED)
        self.next_lock_ms = min(locks, default=NEVER_MS)
        return self._returned(due)

    def release(self, member_id: str) -> StateChange | None:
        """Take back all that a member has, because its session is closed; the delivery counts, as in Kafka 4.3."""
        held = [run for run in self.runs if run.member_id == member_id]  # of what is not acquired nobody is named
        for run in held:
            self._leave(run, RecordState.AVAILABLE)
        return self._returned(held)

    def _returned(self, runs: Sequence[Run]) -> StateChange | None:
        changed = [StateBatch(run.first, run.last, run.state, run.delivery_count) for run in runs]
        if self.runs:
            self.runs.join(self.runs.first, self.runs.last)
        return self._change(changed)

    def raise_start(self, log_start_offset: int) -> None:
        """The log begins later now: what was in front of that is done with, whoever has acquired it."""
        if log_start_offset <= self.start_offset:
            return
        self.runs.drop_before(log_start_offset)
        self.start_offset = log_start_offset
        self._available_from = max(self._available_from, log_start_offset)
        self._advance_start()

    # The start

    def _advance_start(self) -> None:
        """Forget what is done with at the start of the window."""
        while self.runs and self.runs.head.state in TERMINAL:
            self.start_offset = self.runs.head.last + 1
            self.runs.drop_before(self.start_offset)
        self._available_from = max(self._available_from, self.start_offset)

    def _change(self, changed: Sequence[StateBatch]) -> StateChange | None:
        if not changed:
            return None
        self._advance_start()
        return StateChange(self.start_offset, joined_from(self.start_offset, changed), self.delivery_complete_count)


def _pieces(batch: AcknowledgementBatch) -> Iterable[tuple[int, int, AcknowledgeType]]:
    """Neighbours of one type."""
    if len(batch.types) == 1:
        yield batch.first, batch.last, AcknowledgeType(batch.types[0])
        return
    first = batch.first
    for offset in range(batch.first, batch.last + 1):
        index = offset - batch.first
        if offset == batch.last or batch.types[index + 1] != batch.types[index]:
            yield first, offset, AcknowledgeType(batch.types[index])
            first = offset + 1
