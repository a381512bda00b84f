"""The coordinator of the transactions in one partition of `__transaction_state`: appends their records and markers.

A decision and its markers are one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.coordinator import append_records
from pipeline_broker.broker.latest_time import LatestTime
from pipeline_broker.broker.ports import GrantedId, Submit, do_nothing
from pipeline_broker.broker.wide_ends import AppendMarker, WideEnd
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.state.transactions.coordinator import TransactionCoordinator, TransactionSettings, TransactionUsage
from stages.request import Final, Pending

if TYPE_CHECKING:
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.state.transactions.coordinator import Decision, Producer
    from pipeline_broker.state.transactions.transaction import Partition

__all__ = ["NOTHING_APPENDED", "Appending", "TransactionShard"]


class Appending(NamedTuple):
    """Entries that were appended for one decision.

    Attributes:
        entries: entries to commit together, in this order.
        apply: function to call once they are durable.
    """

    entries: Sequence[JournalEntry]
    apply: Callable[[], None]


NOTHING_APPENDED = Appending((), do_nothing)


class TransactionShard:
    """The transactions of one partition of `__transaction_state`.

    Commits about the same id stay in order, because each has a record in the partition. An answer without a record
    waits for the commits in progress.

    Args:
        log: the partition.
        settings: limits and timeouts.
        usage: counts of all coordinators.
        grant_id: returns a new producer id, given the time.
        append_marker: appends a marker to a partition of the transaction.
        decide_end: called with each wide end before its decision is durable, and returns the function to call then.
        time: clock of all transactions.
        submit: commits entries that no request waits for.
        announce: called after each change.
        is_here: returns whether this broker leads a partition.

    Attributes:
        is_unloaded: True once the topic was deleted, or another broker coordinates.
        is_moved: True once another broker coordinates.
        coordinator: handlers pass its decisions to `append` or `answer`.
    """

    def __init__(
        self,
        log: PartitionLog,
        settings: TransactionSettings,
        usage: TransactionUsage,
        grant_id: Callable[[int], GrantedId],
        append_marker: AppendMarker,
        decide_end: Callable[[WideEnd], Callable[[], None]],
        time: LatestTime,
        submit: Submit,
        announce: Callable[[], None],
        is_here: Callable[[Partition], bool],
    ) -> None:
        self.coordinator = TransactionCoordinator(settings, usage, self._new_producer_id, is_here)
        self._log = log
        self._grant_id = grant_id
        self._append_marker = append_marker
        self._decide_end = decide_end
        self.time = time
        self._submit = submit
        self._announce = announce
        self.is_unloaded = self.is_moved = False
        self._granted: list[GrantedId] = []
        self._in_progress: dict[str, int] = {}

    def is_settled(self, transactional_id: str | None) -> bool:
        """Return whether all decisions about an id are durable, or about all ids if `transactional_id` is None."""
        return not self._in_progress if transactional_id is None else transactional_id not in self._in_progress

    def _new_producer_id(self) -> int:
        granted = self._grant_id(self.time.now_ms)
        self._granted.append(granted)
        return granted.producer_id

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[Partition]
    ) -> Mapping[Partition, ErrorCode]:
        """Return an error for each partition: NONE if it is durably part of the producer's transaction.

        While a change of the transaction is not durable, the error is CONCURRENT_TRANSACTIONS, so the producer retries.
        Otherwise its batch could be written before the record that adds the partition.
        """
        if not self.is_settled(transactional_id):
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        return self.coordinator.verify_partitions(transactional_id, producer, partitions)

    def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[Partition], version: int, now_ms: int
    ) -> tuple[ErrorCode, Appending]:
        """Add partitions to a producer's transaction.

        Returns:
            the error for all partitions, and the appended entries, which the caller commits before the data.
        """
        decision = self.coordinator.add_partitions(transactional_id, producer, partitions, version, self.time(now_ms))
        if decision.error is ErrorCode.NONE and not decision.steps and not self.is_settled(transactional_id):
            # The record that adds the partition is not durable yet. It is written again in the commit of the data,
            # because commits without a common partition are written in any order.
            decision = self.coordinator.repeat(transactional_id)
        return decision.error, self.append(decision, now_ms)

    def append(self, decision: Decision, now_ms: int) -> Appending:
        """Append the steps of a decision, and the new block of producer ids if the decision needed one.

        Returns:
            the entries, which the caller commits.
        """
        granted, self._granted = self._granted, []
        # A new block of producer ids is durable with the first record that uses one of them.
        entries = [each.entry for each in granted if each.entry is not None]
        applies = [each.apply for each in granted if each.apply is not None]
        if not decision.steps and not entries and decision.later is None:
            return NOTHING_APPENDED
        for step in decision.steps:
            if isinstance(step, StateRecord):
                entries.append(append_records(self._log, [step], now_ms))
            else:
                self._append_marker(step, now_ms, entries, applies)
        subject = decision.transactional_id
        # Counted until its commit is durable: `is_settled` is false for the id until then.
        self._count_in_progress(subject)
        if decision.later is not None:
            self._count_in_progress(subject)  # until all markers are durable
            applies.append(self._decide_end(WideEnd(subject, decision.later, self._marked, lambda: self.is_moved)))
        self._announce()

        def apply() -> None:
            self._count_durable(subject)
            for each in applies:
                each()

        return Appending(entries, apply)

    def answer(self, decision: Decision, now_ms: int, answer: Final) -> Pending | Final:
        """Append the steps of a decision; answer once all decisions about the id are durable."""
        appended = self.append(decision, now_ms)
        if appended.entries:
            return Pending(appended.entries, answer, appended.apply)
        # A commit without entries completes after all earlier ones.
        return answer if self.is_settled(decision.transactional_id) else Pending((), answer)

    def carry_out(self, decisions: Sequence[Decision], now_ms: int) -> None:
        """Append decisions that no request waits for, and commit them."""
        for decision in decisions:
            appending = self.append(decision, now_ms)
            if appending.entries:
                self._submit(appending.entries, appending.apply)
            else:
                appending.apply()

    def unload(self, *, is_aborting: bool) -> None:
        """Stop coordinating: the topic was deleted.

        Args:
            is_aborting: whether to abort the open transactions, which no client can end any more.
        """
        self.is_unloaded = True
        if is_aborting:
            self.carry_out(self.coordinator.abandon(self.time.now_ms), self.time.now_ms)

    def move(self) -> None:
        """Stop coordinating: another broker will, and sends the missing markers."""
        self.is_unloaded = self.is_moved = True
        self.coordinator.uncount()

    def _marked(self, transactional_id: str) -> None:
        if not self.is_unloaded:
            now_ms = self.time.now_ms
            self.carry_out([self.coordinator.complete(transactional_id, now_ms)], now_ms)
        self._count_durable(transactional_id)

    def _count_in_progress(self, transactional_id: str) -> None:
        self._in_progress[transactional_id] = self._in_progress.get(transactional_id, 0) + 1

    def _count_durable(self, transactional_id: str) -> None:
        left = self._in_progress.pop(transactional_id, 1) - 1
        if left:
            self._in_progress[transactional_id] = left
