"""The transaction coordinators of a broker, one for each partition of `__transaction_state`, and their markers.

Counterpart in Kafka: `TransactionCoordinator`, `TransactionStateManager`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.coordinator import InternalTopic
from pipeline_broker.broker.latest_time import LatestTime
from pipeline_broker.broker.ports import GrantedId, Submit
from pipeline_broker.broker.wide_ends import MARKERS_AT_ONCE, WideEnd, WideEnds
from pipeline_broker.log.errors import LogError
from pipeline_broker.state.internal_topics import TRANSACTIONS_TOPIC
from pipeline_broker.state.outcome import StateRecord
from stages.request import Final, Pending

if TYPE_CHECKING:
    from pipeline_broker.broker.remote_markers import RemoteMarkers
    from pipeline_broker.broker.transaction_shard import TransactionShard
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.log.journal.entry import IndexedLog, JournalEntry
    from pipeline_broker.log.log_manager import LogManager
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.records.batch import BatchHeader
    from pipeline_broker.state.metadata_records import Topic
    from pipeline_broker.state.topics import TopicCatalogue
    from pipeline_broker.state.transactions.coordinator import (
        Decision,
        Marker,
        TransactionCoordinator,
        TransactionUsage,
    )
    from pipeline_broker.state.transactions.transaction import Partition, Transaction

__all__ = ["TRANSACTIONS_TOPIC", "Transactions"]

logger = logging.getLogger(__name__)

# Without a cluster the coordinator never changes, and so neither does the epoch.
COORDINATOR_EPOCH = 0
PAUSE_MS = 100
"""Pause between batches of timed-out or expired ids. Other requests run in between."""
MARKING_PAUSE_MS = 10
"""Pause between batches of markers of a wide transaction."""


class MarkerDurable(Protocol):
    def __call__(self, log: PartitionLog, producer_id: int, *, is_commit: bool) -> None: ...


class Transactions:
    """The transactions of a broker.

    `coordinator_of` is the only way to a transaction. The records and markers of one decision are one commit. The
    journal writes a commit as one frame, so that after a crash a transaction is decided, marked and completed, or not
    decided at all. The markers of a wide transaction follow in turns once the decision is durable (`WideEnds`); after a
    crash `start_entries` appends the missing ones.

    Args:
        config: configuration at startup.
        logs: logs of the partitions that transactions write to.
        topics: existing topics.
        marker_durable: called for each durable marker, see `Coordinator.marker_durable`.
        grant_id: returns a new producer id, given the time.
        submit: commits entries that no request waits for.
        wake_timer: called when `next_deadline_ms` has become earlier.
        remote: sends markers of partitions that other brokers lead; None without a cluster.

    Attributes:
        topic: `__transaction_state`.
        time: clock of all transactions.
        usage: counts of all coordinators; None before the first record or request.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        topics: TopicCatalogue,
        marker_durable: MarkerDurable,
        grant_id: Callable[[int], GrantedId],
        submit: Submit,
        wake_timer: Callable[[], None],
        remote: RemoteMarkers | None = None,
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
            topics,
        )
        self._submit = submit
        self._remote = remote
        self._wide_ends = WideEnds(self._append_marker, submit, remote)
        self.usage: TransactionUsage | None = None
        self._shards: dict[int, TransactionShard] = {}  # by partition, made for the first record or request
        self.time = LatestTime()
        self._is_loaded = False
        self._scan_ms = self._expiry_ms = self._marking_ms = 0
        self._announced_ms: int | None = None

    def coordinator_of(self, transactional_id: str) -> TransactionShard | ErrorCode:
        """Return the coordinator of an id, or INVALID_REQUEST, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        log = self.topic.log_of(transactional_id)
        if log is None:
            return ErrorCode.NOT_COORDINATOR
        return self._shard(log) if self._is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def writing_coordinator_of(self, transactional_id: str) -> TransactionShard | ErrorCode:
        """Like `coordinator_of`, but COORDINATOR_NOT_AVAILABLE while the journal accepts no entries."""
        shard = self.coordinator_of(transactional_id)
        if isinstance(shard, ErrorCode) or self._logs.journal.room.obstacle is None:
            return shard
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    def all(self) -> list[Transaction]:
        return [each for shard in self._shards.values() for each in shard.coordinator]

    def answer_settled(self, transactional_id: str | None, answer: Final) -> Pending | Final:
        """Answer once all decisions about an id are durable, or about all ids if `transactional_id` is None."""
        # A commit without entries completes after all earlier ones.
        is_settled = all(shard.is_settled(transactional_id) for shard in self._shards.values())
        return answer if is_settled else Pending((), answer)

    def _shard(self, log: PartitionLog) -> TransactionShard:
        shard = self._shards.get(log.partition)
        if shard is None:
            from pipeline_broker.broker.transaction_shard import TransactionShard  # noqa: PLC0415 - for brokers with transactions
            from pipeline_broker.state.transactions.coordinator import (  # noqa: PLC0415 - as above
                TransactionSettings,
                TransactionUsage,
            )

            settings = TransactionSettings(
                timeout_ms_max=self._config.transaction_max_timeout_ms,
                expiration_ms=self._config.transactional_id_expiration_ms,
                markers_at_once=MARKERS_AT_ONCE,
                ids_max=self._config.pipeline_transactional_ids,
                partitions_max=self._config.pipeline_transaction_partitions,
            )
            if self.usage is None:
                self.usage = TransactionUsage()
            shard = TransactionShard(
                log,
                settings,
                self.usage,
                self._grant_id,
                self._append_marker,
                self._decide_end,
                self.time,
                self._submit,
                self._announce,
                self._is_here,
            )
            self._shards[log.partition] = shard
        return shard

    # Markers

    def _is_here(self, partition: Partition) -> bool:
        return self._remote is None or self._remote.is_here(partition)

    @property
    def _epoch(self) -> int:
        return COORDINATOR_EPOCH if self._remote is None else self._remote.epoch

    def _decide_end(self, end: WideEnd) -> Callable[[], None]:
        self._wide_ends.decide(end)
        return functools.partial(self._begin_marking, end)

    def _begin_marking(self, end: WideEnd) -> None:
        self._wide_ends.begin(end)
        self._marking_ms = self.time.now_ms
        self._announce()

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
                coordinator_epoch=self._epoch,
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

    # Events from the broker

    def replay(self, partition: int, header: BatchHeader, change: tuple[str, Transaction | None], offset: int) -> None:  # noqa: ARG002 - for the protocol
        log = self._logs.find(TRANSACTIONS_TOPIC, partition)
        assert log is not None, "a record needs its partition"
        self._shard(log).coordinator.replay(change)

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
        now_ms = self.time(now_ms)
        for shard in self._shards.values():
            for decision in shard.coordinator.unfinished(now_ms):
                # A partition without an open transaction of the producer has its marker already.
                steps = tuple(it for it in decision.steps if isinstance(it, StateRecord) or self._is_missing(it))
                appending = shard.append(attrs.evolve(decision, steps=steps), now_ms)
                entries += appending.entries
                appending.apply()  # early: the startup makes it durable, or fails, before a client can connect
                logger.info("the transaction of %s was completed", decision.transactional_id)
        return entries

    def unload_partition(self, partition: int) -> None:
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.move()

    def begin_loading(self) -> None: ...

    def end_loading(self, partitions: Collection[int], now_ms: int) -> None:  # noqa: ARG002 - for the protocol
        self.time(now_ms)
        self._announce()

    def resume(self, partition: int, now_ms: int) -> None:
        """Complete the decided transactions of a partition that this broker has begun to lead.

        All markers are sent: those of the former coordinator may still be on their way, and these end their effect.
        """
        shard = self._shards.get(partition)
        if shard is not None:
            shard.carry_out(shard.coordinator.unfinished(self.time(now_ms)), self.time.now_ms)

    def _is_missing(self, marker: Marker) -> bool:
        log = self._logs.find(*marker.partition)
        return log is not None and log.producers.open_transaction(marker.producer.producer_id) is not None

    def unload(self) -> None:
        """Abort the open transactions: the topic was deleted, so that no client can end them."""
        unloaded, self._shards, self.usage = self._shards, {}, None
        for shard in unloaded.values():
            shard.unload(is_aborting=self._is_loaded)  # during recovery nothing can be appended

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None: ...

    def topic_deleted(self, topic: Topic) -> None:
        self._wide_ends.forget_topic(topic.name)
        for shard in self._shards.values():
            shard.coordinator.forget_topic(topic.name)

    def next_deadline_ms(self) -> int | None:
        self._announced_ms = self._due_ms()
        return self._announced_ms

    def _due_ms(self) -> int | None:
        due = [self._marking_ms] if self._wide_ends else []
        retry_ms = None if self._remote is None else self._remote.next_deadline_ms()
        if retry_ms is not None:
            due.append(retry_ms)
        # No timer without ids: an idle broker sleeps.
        if self.usage is not None and self.usage.ids:
            due.append(self._expiry_ms)
            if self.usage.open_ids:
                due.append(self._scan_ms)
        return min(due, default=None)

    def advance(self, now_ms: int) -> None:
        """Append scheduled markers, abort timed-out transactions, and delete expired ids.

        While the disk is full, nothing is done until a later call.
        """
        now_ms = self.time(now_ms)
        if self._remote is not None:
            self._remote.advance(now_ms)
        is_blocked = self._logs.journal.room.obstacle is not None
        if self._wide_ends and now_ms >= self._marking_ms:
            self._marking_ms = now_ms + (PAUSE_MS if is_blocked else MARKING_PAUSE_MS)
            if not is_blocked:
                self._wide_ends.advance(now_ms)
        if now_ms >= self._scan_ms:
            is_late = self._carry_out_some(lambda it: it.timed_out(now_ms))
            interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._scan_ms = now_ms + (PAUSE_MS if is_late else interval_ms)
        if now_ms >= self._expiry_ms:
            is_old = self._carry_out_some(lambda it: it.expired(now_ms))
            interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._expiry_ms = now_ms + (PAUSE_MS if is_old else interval_ms)

    def _carry_out_some(self, decide: Callable[[TransactionCoordinator], list[Decision]]) -> bool:
        """Carry out the decisions of the first coordinator that has some; return whether one had.

        Some at a time, with a pause in between: all of them at once could block the event loop for seconds.
        """
        if self._logs.journal.room.obstacle is not None:
            return False
        for shard in self._shards.values():
            decisions = decide(shard.coordinator)
            if decisions:
                shard.carry_out(decisions, self.time.now_ms)
                return True
        return False

    def _announce(self) -> None:
        due_ms = self._due_ms()
        if due_ms is not None and (self._announced_ms is None or due_ms < self._announced_ms):
            self._announced_ms = due_ms
            self._wake_timer()
