"""The group coordinators of a broker, one for each partition of `__consumer_offsets`.

Counterpart in Kafka: `GroupCoordinatorService`, `GroupMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.coordinator import InternalTopic
from pipeline_broker.broker.latest_time import LatestTime
from pipeline_broker.broker.ports import Submit
from pipeline_broker.records.control_batch import read_marker
from pipeline_broker.state.internal_topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pipeline_broker.broker.group_shard import GroupShard
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.log.journal.entry import IndexedLog
    from pipeline_broker.log.log_manager import LogManager
    from pipeline_broker.records.batch import BatchHeader
    from pipeline_broker.state.groups.memory import GroupMemory, GroupMemoryShare
    from pipeline_broker.state.groups.records import GroupRecord
    from pipeline_broker.state.metadata_records import Topic
    from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["OFFSETS_TOPIC", "Groups"]


class Groups:
    """The consumer, share and classic groups of a broker.

    `coordinator_of` is the only way to a group. It answers with an error instead of an empty group, so that no client
    takes a group that is elsewhere for one without offsets.

    Args:
        config: configuration at startup.
        logs: logs with the partitions of `__consumer_offsets`.
        topics: existing topics.
        configs_of: returns the settings of a group, by its id.
        submit: commits entries that no request waits for.
        wake_timer: called when `next_deadline_ms` has become earlier.

    Attributes:
        config: current configuration.
        topic: `__consumer_offsets`.
        memory: memory of all groups; None before the first group or request.
        time: clock of all groups.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        topics: TopicCatalogue,
        configs_of: Callable[[str], Mapping[str, str]],
        submit: Submit,
        wake_timer: Callable[[], None],
    ) -> None:
        self.config = config
        self.memory: GroupMemory | None = None
        self.topic = InternalTopic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            {"cleanup.policy": "compact", "compression.type": "producer"},
            logs,
            topics,
        )
        self._logs = logs
        self._topics = topics
        self._configs_of = configs_of
        self.time = LatestTime()
        self._announced_ms: int | None = None
        self._shards: dict[int, GroupShard] = {}  # by partition, made for the first record or request
        self._memories: dict[int, GroupMemoryShare] = {}
        self._is_loaded = False
        self._is_loading = False
        self._submit = submit
        self._wake_timer = wake_timer

    def __iter__(self) -> Iterator[GroupShard]:
        # Of partitions that had a group or a request. A copy, because a coordinator may be made between two turns.
        return iter(list(self._shards.values()))

    def coordinator_of(self, group_id: str) -> GroupShard | ErrorCode:
        log = self.topic.log_of(group_id)
        if log is None:
            return ErrorCode.NOT_COORDINATOR
        return self._shard(log.partition) if self._is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def coordinator_of_named(self, group_id: str) -> GroupShard | ErrorCode:
        """Like `coordinator_of`, but INVALID_GROUP_ID for the empty id, under which only offsets can be stored."""
        return self.coordinator_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def is_joining_long(self, group_id: str) -> bool:
        """Return whether a join of the group may take too long for one turn; see `Group.is_joining_long`."""
        log = self.topic.log_of(group_id)
        shard = None if log is None else self._shards.get(log.partition)
        return shard is not None and shard.is_joining_long(group_id)

    def _shard(self, partition: int) -> GroupShard:
        shard = self._shards.get(partition)
        if shard is None:
            from pipeline_broker.broker.group_shard import GroupShard  # noqa: PLC0415 - for brokers with groups
            from pipeline_broker.state.groups.coordinator import GroupCoordinator  # noqa: PLC0415 - as above
            from pipeline_broker.state.groups.memory import GroupMemory, GroupMemoryShare  # noqa: PLC0415 - as above

            log = self._logs.find(OFFSETS_TOPIC, partition)
            assert log is not None, "records and requests need the partition"
            if self.memory is None:
                self.memory = GroupMemory(self.config.pipeline_group_bytes)
            memory = self._memories[partition] = GroupMemoryShare(self.memory)
            coordinator = GroupCoordinator(self.config, self._topics, self._configs_of, memory)
            shard = GroupShard(log, coordinator, self.time, self._submit, self._announce)
            self._shards[partition] = shard
            if self._is_loaded and not self._is_loading:
                self._begin(shard)
        return shard

    def replay(self, partition: int, header: BatchHeader, change: GroupRecord, offset: int) -> None:  # noqa: ARG002 - for the protocol
        shard = self._shard(partition)
        shard.replay(header.producer_id, change, is_transactional=header.is_transactional)

    def replay_marker(self, partition: int, header: BatchHeader, batch: memoryview) -> None:
        marker = read_marker(header, batch)
        if marker is not None and partition in self._shards:
            self._shards[partition].end_transaction(header.producer_id, is_commit=marker.is_commit)

    def loaded(self, now_ms: int) -> None:
        self.time(now_ms)
        self._is_loaded = True
        for shard in self:
            self._begin(shard)

    def _begin(self, shard: GroupShard) -> None:
        outcome = shard.coordinator.loaded(self.time.now_ms)
        assert not outcome.writes, "no member has joined yet, so no group has changed"
        # If the record of a topic was set aside, a topic that looks missing may exist: its offsets are kept.
        if self._logs.knows_all_topics:
            shard.coordinator.forgetting.forget_missing(self._topics)
        self._announce(shard.coordinator.next_deadline_ms())

    def unload(self) -> None:
        # The memory of the unloaded groups is released with them.
        unloaded, self._shards, self.memory, self._memories = self._shards, {}, None, {}
        for shard in unloaded.values():
            shard.unload()

    def unload_partition(self, partition: int) -> None:
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.unload()
            self._memories.pop(partition).release()

    def begin_loading(self) -> None:
        self._is_loading = True

    def end_loading(self, partitions: Collection[int], now_ms: int) -> None:
        self._is_loading = False
        self.time(now_ms)
        for partition in partitions:
            if partition in self._shards:
                self._begin(self._shards[partition])

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        if log.partition in self._shards:
            self._shards[log.partition].end_transaction(producer_id, is_commit=is_commit)

    def settings_changed(self, config: BrokerConfig) -> None:
        self.config = config
        for shard in self:
            shard.coordinator.change_config(config)

    def topic_changed(self) -> None:
        """Notify the groups that a topic was created, extended or deleted."""
        for shard in self:
            shard.coordinator.topic_changed()

    def topic_deleted(self, topic: Topic) -> None:
        for shard in self:
            shard.carry_out(shard.coordinator.forgetting.forget_topic(topic.name), self.time.now_ms)

    def expire_member(self, group_id: str, member_id: str | None, now_ms: int) -> bool:
        """Remove a member of a group, or all members if `member_id` is None.

        Returns:
            whether the group and the member exist.
        """
        shard = self.coordinator_of(group_id)
        if isinstance(shard, ErrorCode):
            return False
        outcome = shard.coordinator.expire_members(group_id, member_id, self.time(now_ms))
        if outcome is not None:
            shard.carry_out(outcome, now_ms)
        return outcome is not None

    def force_rebalance(self, group_id: str, now_ms: int) -> bool:
        """Start a rebalance of a group; return False if the group is unknown or has no members."""
        shard = self.coordinator_of(group_id)
        if isinstance(shard, ErrorCode):
            return False
        outcome = shard.coordinator.force_rebalance(group_id, self.time(now_ms))
        if outcome is not None:
            shard.carry_out(outcome, now_ms)
        return outcome is not None

    def next_deadline_ms(self) -> int | None:
        deadlines = [shard.coordinator.next_deadline_ms() for shard in self]
        self._announced_ms = min((deadline for deadline in deadlines if deadline is not None), default=None)
        return self._announced_ms

    def advance(self, now_ms: int) -> None:
        self.time(now_ms)
        for shard in self:
            deadline_ms = shard.coordinator.next_deadline_ms()
            if deadline_ms is not None and deadline_ms <= self.time.now_ms:
                shard.advance(now_ms)

    def _announce(self, next_ms: int | None) -> None:
        if next_ms is not None and (self._announced_ms is None or next_ms < self._announced_ms):
            # The timer reads all deadlines when it wakes, so that only an earlier one must wake it.
            self._announced_ms = next_ms
            self._wake_timer()
