"""The place of the share coordinator in a broker: its topic, and the coordinator itself once somebody uses it.

Rules of this file: A broker without share groups loads nothing of them: the
coordinator is made for the first record or the first request.
"""

from __future__ import annotations

from collections.abc import Iterable
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

__all__ = ["SHARE_TOPIC", "Share"]

PARTITIONS_PROPERTY = "share.coordinator.state.topic.num.partitions"
PARTITIONS_DEFAULT = 50


class Share:
    """The share coordinator of a broker, or the place for one; see Coordinator.

    Args:
        config: what it acts on, until `settings_changed`.
        logs: where the partitions of `__share_group_state` are.
        ports: what it asks of its broker.

    Attributes:
        topic: `__share_group_state`. It is not compacted, as in Kafka: updates stand on the snapshot in front of them.
            What no snapshot needs any more is deleted by the coordinator.
    """

    def __init__(self, config: BrokerConfig, logs: LogManager, ports: SharePorts) -> None:
        self._config = config
        self._ports = ports
        partitions = config.texts.get(PARTITIONS_PROPERTY)
        self.topic = InternalTopic(
            SHARE_TOPIC,
            PARTITIONS_DEFAULT if partitions is None else int(partitions),
            {"cleanup.policy": "delete", "compression.type": "producer", "retention.bytes": "-1", "retention.ms": "-1"},
            logs,
        )
        self._manager: SharePartitionManager | None = None

    @property
    def manager(self) -> SharePartitionManager:
        """Decides, and carries out what it decides."""
        if self._manager is None:
            from pipeline_broker.broker.share_partition_manager import (  # noqa: PLC0415 - see the rules of the file
                SharePartitionManager,
            )

            self._manager = SharePartitionManager(self._config, self.topic, self._ports)
        return self._manager

    @property
    def sessions(self) -> ShareSessions | None:
        """The sessions of members; None before there is a coordinator."""
        return None if self._manager is None else self._manager.sessions

    @property
    def is_used(self) -> bool:
        """Whether there is anything to ask."""
        return self._manager is not None

    def settings_changed(self, config: BrokerConfig) -> None:
        """Let other settings count from now on."""
        self._config = config
        if self._manager is not None:
            self._manager.settings_changed(config)

    def replay(self, partition: int, header: BatchHeader, change: ShareRecord, offset: int) -> None:  # noqa: ARG002 - as others need it
        self.manager.states.replay(change, offset)

    def replay_marker(self, partition: int, header: BatchHeader, batch: memoryview) -> None:
        """See Coordinator; these records count whatever becomes of a transaction."""

    def loaded(self, now_ms: int) -> None: ...

    def unload(self) -> None:
        """The records are gone: so is what they said."""
        self._manager = None

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        """See Coordinator; nobody writes these records in transactions."""

    def topic_deleted(self, topic: Topic) -> None:
        """What is known of a topic goes with it."""
        if self._manager is not None:
            self._manager.topic_deleted(topic)

    def next_deadline_ms(self) -> int | None:
        return None if self._manager is None else self._manager.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        if self._manager is not None:
            self._manager.advance(now_ms)

    def forget_groups(self, group_ids: Iterable[str], now_ms: int) -> Appended:
        """Append that nothing is known of groups any more; it must be committed."""
        from pipeline_broker.broker.appended import Appended  # noqa: PLC0415 - for brokers that have share groups

        appended = Appended()
        for group_id in group_ids:
            self.manager.delete(self.manager.states.keys_of_group(group_id), appended, now_ms)
        return appended

    def connection_closed(self, session: object) -> None:
        """A connection is closed: so are the share sessions that it had opened."""
        if self._manager is not None:
            self._manager.connection_closed(session)
