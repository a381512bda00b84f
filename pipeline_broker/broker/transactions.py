"""The transaction coordinator of a broker: appends to `__transaction_state`, and markers to all partitions.

Counterpart in Kafka: `TransactionCoordinator`, `TransactionStateManager`; a decision and its markers are one commit.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.coordinator import InternalTopic
from pipeline_broker.broker.latest_time import LatestTime
from pipeline_broker.broker.ports import Submit, do_nothing
from pipeline_broker.broker.wide_ends import MARKERS_AT_ONCE, WideEnd, WideEnds
from pipeline_broker.log.errors import LogError
from pipeline_broker.state.internal_topics import TRANSACTIONS_TOPIC
from pipeline_broker.state.outcome import StateRecord
from stages.request import Final, Pending

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.log.journal.entry import IndexedLog, JournalEntry
    from pipeline_broker.log.log_manager import LogManager
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.records.batch import BatchHeader
    from pipeline_broker.state.metadata_records import Topic
    from pipeline_broker.state.transactions.coordinator import Decision, Marker, Producer, TransactionCoordinator
    from pipeline_broker.state.transactions.transaction import Partition, Transaction

__all__ = ["TRANSACTIONS_TOPIC", "Appending", "GrantedId", "Transactions"]

logger = logging.getLogger(__name__)

# Leadership never changes with one broker, and so neither does the epoch.
COORDINATOR_EPOCH = 0
PAUSE_MS = 100
"""Pause between batches of timed-out or expired ids. Other requests run in between."""
MARKING_PAUSE_MS = 10
"""Pause between batches of markers of a wide transaction."""


class GrantedId(NamedTuple):
    """A new producer id.

    Attributes:
        entry: entry to commit before a client learns the id; None if the block of ids is durable already.
        apply: function to call once the entry is durable.
    """

    producer_id: int
    entry: JournalEntry | None = None
    apply: Callable[[], None] | None = None


class Appending(NamedTuple):
    """Entries that were appended for one decision.

    Attributes:
        entries: entries to commit together, in this order.
        apply: function to call once they are durable.
    """

    entries: Sequence[JournalEntry]
    apply: Callable[[], None]


class MarkerDurable(Protocol):
    def __call__(self, log: PartitionLog, producer_id: int, *, is_commit: bool) -> None:
        """Apply a marker that became durable in a log."""


class Transactions:
    """The transactions of a broker.

    The records and markers of one decision are one commit. The journal writes a commit as one frame, so that after a
    crash a transaction is decided, marked and completed, or not decided at all. The markers of a wide transaction
    follow in turns once the decision is durable (`WideEnds`); after a crash `start_entries` appends the missing ones.

    Commits about the same id stay in order, because each has a record in the partition of the id. An answer without a
    record waits for the commits in progress.

    Args:
        config: configuration at startup.
        logs: logs of the partitions that transactions write to.
        marker_durable: called for each durable marker, see `Coordinator.marker_durable`.
        grant_id: returns a new producer id, given the time.
        submit: commits entries that no request waits for.
        wake_timer: called when `next_deadline_ms` has become earlier.

    Attributes:
        topic: `__transaction_state`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        marker_durable: MarkerDurable,
        grant_id: Callable[[int], GrantedId],
        submit: Submit,
        wake_timer: Callable[[], None],
    ) -> None:
        self._config = config
        self._logs = logs
        self._marker_durable = marker_durable
        self._grant_id = grant_id
        self._wake_timer = wake_timer
        self.topic = InternalTopic(
            TRANSACTIONS_TOPIC,
            config.transaction_state_log_num_partitions,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
            logs,
        )
        self._submit = submit
        self._wide_ends = WideEnds(self._append_marker, submit, self._marked)
        self._coordinator: TransactionCoordinator | None = None
        self._granted: list[GrantedId] = []
        self._in_progress: dict[str, int] = {}
        self.time = LatestTime()
        self._is_loaded = False
        self._scan_ms = self._expiry_ms = self._marking_ms = 0
        self._announced_ms: int | None = None

    @property
    def coordinator(self) -> TransactionCoordinator:
        """The state machine, made for the first record or request.

        Handlers pass its decisions to `append` or `answer`.
        """
        if self._coordinator is None:
            from pipeline_broker.state.transactions.coordinator import (  # noqa: PLC0415 - for brokers with transactions
                TransactionCoordinator,
                TransactionSettings,
            )

            settings = TransactionSettings(
                timeout_ms_max=self._config.transaction_max_timeout_ms,
                expiration_ms=self._config.transactional_id_expiration_ms,
                markers_at_once=MARKERS_AT_ONCE,
                ids_max=self._config.pipeline_transactional_ids,
                partitions_max=self._config.pipeline_transaction_partitions,
            )
            self._coordinator = TransactionCoordinator(settings, self._new_producer_id)
        return self._coordinator

    @property
    def known(self) -> int:
        return 0 if self._coordinator is None else len(self._coordinator)

    @property
    def open_partitions(self) -> int:
        """Number of partitions in all transactions that are not completed."""
        return 0 if self._coordinator is None else self._coordinator.open_partitions

    @property
    def refusal(self) -> ErrorCode | None:
        """The error for all requests while the topic is missing or the journal accepts no entries; None otherwise."""
        if not self.topic.exists:
            return ErrorCode.NOT_COORDINATOR
        return None if self._logs.journal.room.obstacle is None else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def is_settled(self, transactional_id: str) -> bool:
        """Return whether all decisions about an id are durable."""
        return transactional_id not in self._in_progress

    def _new_producer_id(self) -> int:
        granted = self._grant_id(self.time.now_ms)
        self._granted.append(granted)
        return granted.producer_id

    @staticmethod
    def has_written(log: PartitionLog, producer_id: int, epoch: int) -> bool:
        """Return whether a producer with this epoch has an open transaction in a partition. It may then write more."""
        found = log.producers.open_transaction(producer_id)
        return found is not None and found.producer_epoch == epoch

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
        decision = self.coordinator.add_partitions(transactional_id, producer, partitions, version, now_ms)
        if decision.error is ErrorCode.NONE and not decision.steps and not self.is_settled(transactional_id):
            # The record that adds the partition is not durable yet. It is written again in the commit of the data,
            # because commits without a common partition are written in any order.
            decision = self.coordinator.repeat(transactional_id)
        return decision.error, self.append(decision, now_ms)

    # Decisions

    @property
    def nothing(self) -> Appending:
        return Appending((), do_nothing)

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
            return self.nothing
        for step in decision.steps:
            if isinstance(step, StateRecord):
                entry = self.topic.append(decision.transactional_id, [step], now_ms)
                entries += () if entry is None else (entry,)
            else:
                self._append_marker(step, now_ms, entries, applies)
        subject = decision.transactional_id
        # Counted until its commit is durable: `is_settled` is false for the id until then.
        self._count_in_progress(subject)
        if decision.later is not None:
            self._count_in_progress(subject)  # until all markers are durable
            end = WideEnd(subject, decision.later, self._coordinator)
            self._wide_ends.decide(end)
            applies.append(functools.partial(self._begin_marking, end))
        self._announce()

        def apply() -> None:
            self._count_durable(subject)
            for each in applies:
                each()

        return Appending(entries, apply)

    def answer(self, decision: Decision, now_ms: int, answer: Final) -> Pending | Final:
        """Append the steps of a decision; answer once all decisions about the id are durable."""
        appending = self.append(decision, now_ms)
        if appending.entries:
            return Pending(appending.entries, answer, appending.apply)
        return self.answer_settled(decision.transactional_id, answer)

    def answer_settled(self, transactional_id: str | None, answer: Final) -> Pending | Final:
        """Answer once all decisions about an id are durable, or about all ids if `transactional_id` is None."""
        waits = bool(self._in_progress) if transactional_id is None else not self.is_settled(transactional_id)
        # A commit without entries completes after all earlier ones.
        return Pending((), answer) if waits else answer

    def _begin_marking(self, end: WideEnd) -> None:
        self._wide_ends.begin(end)
        self._marking_ms = self.time.now_ms
        self._announce()

    def _marked(self, end: WideEnd) -> None:
        if self._coordinator is not None and end.coordinator is self._coordinator:
            self._carry_out([self._coordinator.complete(end.transactional_id, self.time.now_ms)], self.time.now_ms)
        self._count_durable(end.transactional_id)

    def _count_in_progress(self, transactional_id: str) -> None:
        self._in_progress[transactional_id] = self._in_progress.get(transactional_id, 0) + 1

    def _count_durable(self, transactional_id: str) -> None:
        left = self._in_progress.pop(transactional_id, 1) - 1
        if left:
            self._in_progress[transactional_id] = left

    def _append_marker(
        self, marker: Marker, now_ms: int, entries: list[JournalEntry], applies: list[Callable[[], None]]
    ) -> None:
        log = self._logs.find(*marker.partition)
        if log is None:  # the topic was deleted
            return
        producer_id, is_commit = marker.producer.producer_id, marker.committed
        try:
            appended = log.append_marker(
                producer_id,
                marker.producer.epoch,
                committed=is_commit,
                coordinator_epoch=COORDINATOR_EPOCH,
                now_ms=now_ms,
                version=marker.version,
            )
        except LogError as error:
            # A newer producer of the id has written since, and has ended this transaction.
            logger.warning("cannot end a transaction in %r: %s", log, error)
            return
        assert appended.entry is not None, "a marker has no duplicates"
        entries.append(appended.entry)
        applies.append(lambda: self._marker_durable(log, producer_id, is_commit=is_commit))

    def _carry_out(self, decisions: Sequence[Decision], now_ms: int) -> None:
        for decision in decisions:
            appending = self.append(decision, now_ms)
            if appending.entries:
                self._submit(appending.entries, appending.apply)
            else:
                appending.apply()

    # Events from the broker

    def replay(self, partition: int, header: BatchHeader, change: tuple[str, Transaction | None], offset: int) -> None:
        del partition, header, offset
        self.coordinator.replay(change)

    def replay_marker(self, partition: int, header: BatchHeader, batch: memoryview) -> None: ...

    def loaded(self, now_ms: int) -> None:
        self.time(now_ms)
        self._is_loaded = True
        self._scan_ms = now_ms + self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._expiry_ms = now_ms + self._config.transaction_remove_expired_transaction_cleanup_interval_ms

    def start_entries(self, now_ms: int) -> list[JournalEntry]:
        """Append the missing markers and records of decided transactions, and apply the decisions at once.

        Returns:
            the entries, which the caller must commit before it serves clients.
        """
        entries: list[JournalEntry] = []
        for decision in [] if self._coordinator is None else self._coordinator.unfinished(self.time(now_ms)):
            # A partition without an open transaction of the producer has its marker already.
            steps = tuple(it for it in decision.steps if isinstance(it, StateRecord) or self._is_missing(it))
            appending = self.append(attrs.evolve(decision, steps=steps), now_ms)
            entries += appending.entries
            appending.apply()  # early: the startup makes it durable, or fails, before a client can connect
            logger.info("the transaction of %s was completed", decision.transactional_id)
        return entries

    def _is_missing(self, marker: Marker) -> bool:
        log = self._logs.find(*marker.partition)
        return log is not None and log.producers.open_transaction(marker.producer.producer_id) is not None

    def unload(self) -> None:
        """Abort the open transactions: the topic was deleted, so that no client can end them."""
        unloaded, self._coordinator = self._coordinator, None
        # During recovery nothing can be appended.
        if unloaded is not None and self._is_loaded:
            now_ms = self.time.now_ms
            self._carry_out(unloaded.abandon(now_ms), now_ms)

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None: ...

    def topic_deleted(self, topic: Topic) -> None:
        self._wide_ends.forget_topic(topic.name)
        if self._coordinator is not None:
            self._coordinator.forget_topic(topic.name)

    def next_deadline_ms(self) -> int | None:
        self._announced_ms = self._due_ms()
        return self._announced_ms

    def _due_ms(self) -> int | None:
        due = [self._marking_ms] if self._wide_ends else []
        # No timer without ids: an idle broker sleeps.
        if self._coordinator is not None and len(self._coordinator):
            due.append(self._expiry_ms)
            if self._coordinator.has_open:
                due.append(self._scan_ms)
        return min(due, default=None)

    def advance(self, now_ms: int) -> None:
        """Append scheduled markers, abort timed-out transactions, and delete expired ids.

        While the disk is full, nothing is done until a later call.
        """
        now_ms = self.time(now_ms)
        if self._wide_ends and now_ms >= self._marking_ms:
            is_blocked = self._logs.journal.room.obstacle is not None
            self._marking_ms = now_ms + (PAUSE_MS if is_blocked else MARKING_PAUSE_MS)
            if not is_blocked:
                self._wide_ends.advance(now_ms)
        if self._coordinator is None:
            return
        if now_ms >= self._scan_ms:
            late = self._coordinator.timed_out(now_ms) if self.refusal is None else []
            interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._scan_ms = now_ms + (PAUSE_MS if late else interval_ms)
            # Some at a time, with a pause in between: all of them at once could block the event loop for seconds.
            self._carry_out(late, now_ms)
        if now_ms >= self._expiry_ms:
            old = self._coordinator.expired(now_ms) if self.refusal is None else []
            interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._expiry_ms = now_ms + (PAUSE_MS if old else interval_ms)
            self._carry_out(old, now_ms)

    def _announce(self) -> None:
        due_ms = self._due_ms()
        if due_ms is not None and (self._announced_ms is None or due_ms < self._announced_ms):
            self._announced_ms = due_ms
            self._wake_timer()
