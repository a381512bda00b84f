"""Partitions that a broker begins or ends to lead while it serves: their logs and their coordinators.

Counterpart in Kafka: `ReplicaManager.applyDelta`, `GroupCoordinatorService.onElection` and `onResignation`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pipeline_broker.state.leadership.records import PartitionKey

if TYPE_CHECKING:
    from pipeline_broker.broker.cluster_members import ClusterMembers
    from pipeline_broker.broker.coordinators import Coordinators
    from pipeline_broker.broker.replay import StateReplay
    from pipeline_broker.broker.transactions import Transactions
    from pipeline_broker.broker.waiting_fetches import WaitingFetches
    from pipeline_broker.log.log_manager import LogManager
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.state.metadata_records import Topic
    from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["LeaderChanges"]


class LeaderChanges:
    def __init__(
        self,
        members: ClusterMembers,
        topics: TopicCatalogue,
        logs: LogManager,
        coordinators: Coordinators,
        transactions: Transactions,
        fetches: WaitingFetches,
    ) -> None:
        self._members = members
        self._topics = topics
        self._logs = logs
        self._coordinators = coordinators
        self._transactions = transactions
        self._fetches = fetches

    def give_up(self, key: PartitionKey) -> PartitionLog | None:
        topic = self._topics.by_id(key.topic_id)
        log = None if topic is None else self._logs.give_up(topic.name, key.partition)
        if log is None:
            return None
        coordinator = self._coordinators.get(log.topic)
        if coordinator is not None:
            coordinator.unload_partition(log.partition)
        self._fetches.wake(log)
        return log

    def begin_epochs(self, topic: Topic, partitions: Collection[int]) -> None:
        known = self._members.image.partitions(topic.topic_id)
        for partition in partitions:
            record = known.get(partition)
            log = None if record is None or not record.epoch else self._logs.find(topic.name, partition)
            if record is not None and log is not None and record.epoch > log.leader_epoch:
                log.begin_epoch(record.epoch, log.log_end_offset)

    def load(self, topic: Topic, partitions: Collection[int], replay: StateReplay, now_ms: int) -> None:
        coordinator = self._coordinators.get(topic.name)
        if coordinator is None:
            self._logs.replay_attached(replay, replay.is_state)
            return
        coordinator.begin_loading()
        self._logs.replay_attached(replay, replay.is_state)
        coordinator.end_loading(partitions, now_ms)

    def resume(self, topic: Topic, partitions: Collection[int], now_ms: int) -> None:
        if topic.name == self._transactions.topic.name:
            for partition in partitions:
                self._transactions.resume(partition, now_ms)
