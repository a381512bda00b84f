"""Access to the share coordinator, which is imported and made on first use."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pipeline_broker.broker.coordinator import InternalTopic
from pipeline_broker.state.internal_topics import SHARE_TOPIC

if TYPE_CHECKING:
    from pipeline_broker.broker.appended import Appended
    from pipeline_broker.broker.share_partition_manager import SharePartitionManager
    from pipeline_broker.broker.share_ports import SharePorts
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.log.journal.entry import IndexedLog
    from pipeline_broker.log.log_manager import LogManager
    from pipeline_broker.records.batch import BatchHeader
    from pipeline_broker.state.metadata_records import Topic
    from pipeline_broker.state.share_coordinator.records import ShareRecord
    from pipeline_broker.state.share_partitions.share_sessions import ShareSessions
    from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["SHARE_TOPIC", "Share"]


class Share:
    """The share coordinator of a broker, made for the first record or request.

    Args:
        config: configuration at startup.
        logs: logs with the partitions of `__share_group_state`.
        topics: existing topics.
        ports: callbacks to the broker.

    Attributes:
        topic: `__share_group_state`. As in Kafka it is not compacted, because update records need the snapshot before
            them. The coordinator deletes records that no snapshot needs.
    """

    def __init__(self, config: BrokerConfig, logs: LogManager, topics: TopicCatalogue, ports: SharePorts) -> None:
        self._config = config
        self._ports = ports
        self._logs, self._topics = logs, topics
        self.topic = InternalTopic(
            SHARE_TOPIC,
            config.share_coordinator_state_topic_num_partitions,
            {"cleanup.policy": "delete", "compression.type": "producer", "retention.bytes": "-1", "retention.ms": "-1"},
            logs,
            topics,
        )
        self._manager: SharePartitionManager | None = None

    @property
    def manager(self) -> SharePartitionManager:
        if self._manager is None:
            from pipeline_broker.broker.dead_letters import DeadLetters  # noqa: PLC0415 - for brokers with share groups
            from pipeline_broker.broker.share_partition_manager import (  # noqa: PLC0415 - as above
                SharePartitionManager,
            )

            ports = self._ports
            dead_letters = DeadLetters(self._topics, self._logs, ports.configs_of, ports.level)
            self._manager = SharePartitionManager(self._config, self.topic, ports, dead_letters)
        return self._manager

    @property
    def sessions(self) -> ShareSessions | None:
        """The sessions of members; None if no coordinator exists yet."""
        return None if self._manager is None else self._manager.sessions

    @property
    def is_used(self) -> bool:
        return self._manager is not None

    def settings_changed(self, config: BrokerConfig) -> None:
        self._config = config
        if self._manager is not None:
            self._manager.config = config

    def replay(self, partition: int, header: BatchHeader, change: ShareRecord, offset: int) -> None:  # noqa: ARG002 - for the protocol
        self.manager.states.replay(change, offset)

    def replay_marker(self, partition: int, header: BatchHeader, batch: memoryview) -> None: ...

    def loaded(self, now_ms: int) -> None: ...

    def unload(self) -> None:
        self._manager = None

    # Clusters have no share groups.
    def unload_partition(self, partition: int) -> None: ...

    def begin_loading(self) -> None: ...

    def end_loading(self, partitions: Collection[int], now_ms: int) -> None: ...

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None: ...

    def topic_deleted(self, topic: Topic) -> None:
        if self._manager is not None:
            self._manager.topic_deleted(topic)

    def next_deadline_ms(self) -> int | None:
        return None if self._manager is None else self._manager.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        if self._manager is not None:
            self._manager.advance(now_ms)

    def forget_group(self, group_id: str, appended: Appended, now_ms: int) -> None:
        self.manager.forget_group(group_id, appended, now_ms)

    def connection_closed(self, session: object) -> None:
        if self._manager is not None:
            self._manager.connection_closed(session)
