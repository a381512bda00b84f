"""The transaction coordinator at work: its records go to `__transaction_state`, its markers to all partitions.

Rules of this file: what state decided is appended here and nowhere else, as one commit: records and markers between
them in their order. A commit is one frame of the journal, so a transaction that ends is decided, marked and completed,
or nothing of it has happened. A wide one is marked in turns after its decision is durable (`WideEnds`), and
`start_entries` completes what a crash left by halves. Two commits about one id are written in their order, since both
have a record in its partition; an answer without a record waits for what is on its way.

Longer than most files: what was decided, what is on its way and what is due share the state of one coordinator.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import attrs

from pipeline_broker.broker.coordinator import InternalTopic
from pipeline_broker.broker.ports import Submit
from pipeline_broker.broker.wide_ends import MARKERS_AT_ONCE, WideEnd, WideEnds
from pipeline_broker.log.errors import LogError
from pipeline_broker.state.internal_topics import TRANSACTIONS_TOPIC
from pipeline_broker.state.outcome import StateRecord
from pipeline_broker.wire.error import ErrorCode
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

COORDINATOR_EPOCH = 0
"""Of every partition of the topic: one broker, so leadership never changes."""
PAUSE_MS = 100
"""Between some that are aborted or forgotten for their age and the next: each time others wait for it."""
MARKING_PAUSE_MS = 10
"""Between some markers of a wide transaction and the next."""


class GrantedId(NamedTuple):
    """A producer id that nobody had.

    Attributes:
        entry: what must be committed before it is told; None where that is durable already.
        apply: to be called then.
    """

    producer_id: int
    entry: JournalEntry | None = None
    apply: Callable[[], None] | None = None


class Appending(NamedTuple):
    """What was appended for one decision.

    Attributes:
        entries: to be committed together, in this order.
        apply: to be called when they are durable.
    """

    entries: Sequence[JournalEntry]
    apply: Callable[[], None]


class MarkerDurable(Protocol):
    """Who is told of markers."""

    def __call__(self, log: PartitionLog, producer_id: int, *, is_commit: bool) -> None:
        """A marker in a log is durable."""


class Transactions:
    """The transactions of a broker.

    Args:
        config: what it acts on.
        logs: where the partitions are that transactions write to.
        marker_durable: told of each marker, see `Broker.marker_durable`.
        grant_id: gives out a producer id, given the time.
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
        self._on_their_way: dict[str, int] = {}
        self._now_ms = 0
        self._is_loaded = False
        self._scan_ms = self._expiry_ms = self._marking_ms = 0
        self._announced_ms: int | None = None

    @property
    def coordinator(self) -> TransactionCoordinator:
        """Decides; handlers ask it and hand what it returns to `append` or `answer`.

        It is made for the first record or request: a broker without transactions starts without it.
        """
        if self._coordinator is None:
            from pipeline_broker.state.transactions.coordinator import (  # noqa: PLC0415 - see above
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
        """How many transactional ids are known."""
        return 0 if self._coordinator is None else len(self._coordinator)

    @property
    def open_partitions(self) -> int:
        """To how many partitions transactions write that are not completed."""
        return 0 if self._coordinator is None else self._coordinator.open_partitions

    @property
    def refusal(self) -> ErrorCode | None:
        """Why it may not decide now: there is no place for records, or the journal does not take them."""
        if not self.topic.exists:
            return ErrorCode.NOT_COORDINATOR
        return None if self._logs.journal.room.obstacle is None else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def time(self, now_ms: int) -> int:
        """The time as the coordinator may see it: a wall clock that was set back stands still for a while."""
        self._now_ms = max(self._now_ms, now_ms)
        return self._now_ms

    def is_settled(self, transactional_id: str) -> bool:
        """Whether all that was decided about an id is durable."""
        return transactional_id not in self._on_their_way

    def _new_producer_id(self) -> int:
        granted = self._grant_id(self._now_ms)
        self._granted.append(granted)
        return granted.producer_id

    @staticmethod
    def is_going_on(log: PartitionLog, producer_id: int, epoch: int) -> bool:
        """Whether a producer's transaction has written to a partition, so that more of it needs no coordinator."""
        found = log.producers.open_transaction(producer_id)
        return found is not None and found.producer_epoch == epoch

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[Partition]
    ) -> Mapping[Partition, ErrorCode]:
        """Whether partitions are part of the producer's transaction, as far as that is durable.

        A producer that does not wait until they are is told to try again: its batch could be written in front of the
        record that says so.
        """
        if not self.is_settled(transactional_id):
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        return self.coordinator.verify_partitions(transactional_id, producer, partitions)

    def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[Partition], version: int, now_ms: int
    ) -> tuple[ErrorCode, Appending]:
        """Let the producer's transaction write to partitions; what is appended must be committed in front of the data.

        Where the record that says so is on its way it is written again: commits that have no partition in common are
        written in any order.
        """
        decision = self.coordinator.add_partitions(transactional_id, producer, partitions, version, now_ms)
        if decision.error is ErrorCode.NONE and not decision.steps and not self.is_settled(transactional_id):
            decision = self.coordinator.repeat(transactional_id)
        return decision.error, self.append(decision, now_ms)

    # What was decided

    @property
    def nothing(self) -> Appending:
        """What is appended where nothing has to be."""
        return Appending((), _nothing)

    def append(self, decision: Decision, now_ms: int) -> Appending:
        """Append the steps of a decision; nothing where it has none."""
        granted, self._granted = self._granted, []
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
        self._depart(subject)
        if decision.later is not None:
            self._depart(subject)  # arrives when all is marked
            end = WideEnd(subject, decision.later, self._coordinator)
            self._wide_ends.decide(end)
            applies.append(functools.partial(self._begin_marking, end))
        self._announce()

        def apply() -> None:
            self._arrived(subject)
            for each in applies:
                each()

        return Appending(entries, apply)

    def answer(self, decision: Decision, now_ms: int, answer: Final) -> Pending | Final:
        """Give an answer when all that was decided about the id until now is durable."""
        appending = self.append(decision, now_ms)
        if appending.entries:
            return Pending(appending.entries, answer, appending.apply)
        return self.answer_settled(decision.transactional_id, answer)

    def answer_settled(self, transactional_id: str | None, answer: Final) -> Pending | Final:
        """The same without a decision; about all ids where none is named."""
        waits = bool(self._on_their_way) if transactional_id is None else not self.is_settled(transactional_id)
        return Pending((), answer) if waits else answer

    def _begin_marking(self, end: WideEnd) -> None:
        """The end of a wide transaction is durable."""
        self._wide_ends.begin(end)
        self._marking_ms = self._now_ms
        self._announce()

    def _marked(self, end: WideEnd) -> None:
        """All markers of a wide transaction are durable."""
        if self._coordinator is not None and end.coordinator is self._coordinator:
            self._carry_out([self._coordinator.complete(end.transactional_id, self._now_ms)], self._now_ms)
        self._arrived(end.transactional_id)

    def _depart(self, transactional_id: str) -> None:
        self._on_their_way[transactional_id] = self._on_their_way.get(transactional_id, 0) + 1

    def _arrived(self, transactional_id: str) -> None:
        left = self._on_their_way.pop(transactional_id, 1) - 1
        if left:
            self._on_their_way[transactional_id] = left

    def _append_marker(
        self, marker: Marker, now_ms: int, entries: list[JournalEntry], applies: list[Callable[[], None]]
    ) -> None:
        """Append a marker, unless there is nothing to end: the partition is gone, or a newer producer is at it."""
        log = self._logs.find(*marker.partition)
        if log is None:
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
            logger.warning("%r: a transaction cannot be ended there: %s", log, error)
            return
        assert appended.entry is not None, "a marker has no duplicates"
        entries.append(appended.entry)
        applies.append(lambda: self._marker_durable(log, producer_id, is_commit=is_commit))

    def _carry_out(self, decisions: Sequence[Decision], now_ms: int) -> None:
        """Append what nobody waits for."""
        for decision in decisions:
            appending = self.append(decision, now_ms)
            if appending.entries:
                self._submit(appending.entries, appending.apply)
            else:
                appending.apply()

    # What the broker tells

    def replay(self, partition: int, header: BatchHeader, change: tuple[str, Transaction | None], offset: int) -> None:
        del partition, header, offset
        self.coordinator.replay(change)

    def replay_marker(self, partition: int, header: BatchHeader, batch: memoryview) -> None:
        """See Coordinator; these records count whatever becomes of a transaction."""

    def loaded(self, now_ms: int) -> None:
        """All records are replayed."""
        self.time(now_ms)
        self._is_loaded = True
        self._scan_ms = now_ms + self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._expiry_ms = now_ms + self._config.transaction_remove_expired_transaction_cleanup_interval_ms

    def start_entries(self, now_ms: int) -> list[JournalEntry]:
        """What must be durable before the broker serves: the rest of transactions whose end was decided.

        A marker is missing where the producer's transaction is still open.
        """
        entries: list[JournalEntry] = []
        for decision in [] if self._coordinator is None else self._coordinator.unfinished(self.time(now_ms)):
            steps = tuple(it for it in decision.steps if isinstance(it, StateRecord) or self._is_missing(it))
            appending = self.append(attrs.evolve(decision, steps=steps), now_ms)
            entries += appending.entries
            appending.apply()  # it is synced before anybody can ask, or the start fails
            logger.info("transaction of %s was completed", decision.transactional_id)
        return entries

    def _is_missing(self, marker: Marker) -> bool:
        log = self._logs.find(*marker.partition)
        return log is not None and log.producers.open_transaction(marker.producer.producer_id) is not None

    def unload(self) -> None:
        """The records are gone, and nobody can end what is open any more: it is aborted."""
        gone, self._coordinator = self._coordinator, None
        if gone is not None and self._is_loaded:
            now_ms = self.time(self._now_ms)
            self._carry_out(gone.abandon(now_ms), now_ms)

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        """See Coordinator: nobody's transactions write to `__transaction_state`."""

    def topic_deleted(self, topic: Topic) -> None:
        """Some other topic is gone."""
        self._wide_ends.forget_topic(topic.name)
        if self._coordinator is not None:
            self._coordinator.forget_topic(topic.name)

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do."""
        self._announced_ms = self._due_ms()
        return self._announced_ms

    def _due_ms(self) -> int | None:
        due = [self._marking_ms] if self._wide_ends else []
        if self._coordinator is not None and len(self._coordinator):
            due.append(self._expiry_ms)
            if self._coordinator.has_open:
                due.append(self._scan_ms)
        return min(due, default=None)

    def advance(self, now_ms: int) -> None:
        """Abort what lasts too long, forget what was at rest for long; while nothing can be written that waits."""
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
            self._carry_out(late, now_ms)
        if now_ms >= self._expiry_ms:
            old = self._coordinator.expired(now_ms) if self.refusal is None else []
            interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._expiry_ms = now_ms + (PAUSE_MS if old else interval_ms)
            self._carry_out(old, now_ms)

    def _announce(self) -> None:
        """The first id brings a deadline, the first transaction that is open an earlier one."""
        due_ms = self._due_ms()
        if due_ms is not None and (self._announced_ms is None or due_ms < self._announced_ms):
            self._announced_ms = due_ms
            self._wake_timer()


def _nothing() -> None:
    """Nothing was appended."""
