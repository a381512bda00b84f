"""The group coordinator at work: its records go to `__consumer_offsets`, its answers to the requests that wait.

Rules of this file: What state returned is carried out here and nowhere else. An
answer that may be given at once is not held back by records that are on their way; where it must be, the handler asks
for it with `answer_when_durable`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.broker.coordinator import InternalTopic
from pipeline_broker.broker.ports import Submit
from pipeline_broker.config.assignors import consumer_assignors
from pipeline_broker.log.errors import LogError
from pipeline_broker.records.control_batch import read_marker
from pipeline_broker.state.internal_topics import OFFSETS_TOPIC
from pipeline_broker.state.partition_for import partition_for
from pipeline_broker.wire.error import ErrorCode
from stages.request import Close, Final, Parked, Pending, Request, Send

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.log.journal.entry import IndexedLog, JournalEntry
    from pipeline_broker.log.log_manager import LogManager
    from pipeline_broker.records.batch import BatchHeader
    from pipeline_broker.state.groups.commits import CommitRequest
    from pipeline_broker.state.groups.coordinator import GroupCoordinator
    from pipeline_broker.state.groups.memory import GroupMemory
    from pipeline_broker.state.groups.records import GroupRecord
    from pipeline_broker.state.groups.settings import GroupSettings
    from pipeline_broker.state.metadata_records import Topic
    from pipeline_broker.state.outcome import Outcome, Write
    from pipeline_broker.state.pending_offsets import Holder
    from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["OFFSETS_TOPIC", "Groups", "WaitingMember", "group_settings"]

logger = logging.getLogger(__name__)

PARKED_WITHOUT_FRAME = Parked(needs_frame=False)
"""What a group keeps of a request counts in `pipeline.group.bytes`."""
ANSWERED_AT_ONCE_MAX = 32
"""Members of a group that are answered in the turn that decides about them: about 1 ms of work."""


@attrs.frozen(eq=False)
class WaitingMember:
    """The token of a join or a sync: its request, and how the result is written."""

    request: Request
    encode: Callable[[Any], Send]


def group_settings(config: BrokerConfig) -> GroupSettings:
    """The configuration as the coordinator wants it."""
    from pipeline_broker.state.groups.settings import GroupSettings  # noqa: PLC0415 - see Groups.coordinator

    policy = config.group_consumer_migration_policy.upper()
    return GroupSettings(
        memory_bytes_max=config.pipeline_group_bytes,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        session_timeout_ms_min=config.group_min_session_timeout_ms,
        session_timeout_ms_max=config.group_max_session_timeout_ms,
        group_size_max=config.group_max_size,
        offset_metadata_size_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_session_timeout_ms_min=config.group_consumer_min_session_timeout_ms,
        consumer_session_timeout_ms_max=config.group_consumer_max_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_heartbeat_interval_ms_min=config.group_consumer_min_heartbeat_interval_ms,
        consumer_heartbeat_interval_ms_max=config.group_consumer_max_heartbeat_interval_ms,
        consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        consumer_assignment_interval_ms_min=config.group_consumer_min_assignment_interval_ms,
        consumer_assignment_interval_ms_max=config.group_consumer_max_assignment_interval_ms,
        consumer_group_size_max=config.group_consumer_max_size,
        consumer_assignors=consumer_assignors(config.group_consumer_assignors),
        consumer_upgrade_enabled=policy in {"UPGRADE", "BIDIRECTIONAL"},
        consumer_downgrade_enabled=policy in {"DOWNGRADE", "BIDIRECTIONAL"},
    )


class Groups:
    """The groups of a broker.

    Args:
        config: what it acts on.
        logs: where the partitions of `__consumer_offsets` are.
        topics: those that exist.
        configs_of: what was set for a single group, by its id.
        submit: commits entries that no request waits for.
        wake_timer: called when `next_deadline_ms` has become earlier.

    Attributes:
        topic: `__consumer_offsets`.
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
        self._config = config
        self._logs = logs
        self._topics = topics
        self._configs_of = configs_of
        self.topic = InternalTopic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            {"cleanup.policy": "compact", "compression.type": "producer"},
            logs,
        )
        self._now_ms = 0
        self._announced_ms: int | None = None
        self._coordinator: GroupCoordinator | None = None
        self._is_loaded = False
        self._submit = submit
        self._wake_timer = wake_timer

    @property
    def memory(self) -> GroupMemory | None:
        """What groups hold; None before there is a coordinator."""
        return None if self._coordinator is None else self._coordinator.memory

    @property
    def coordinator(self) -> GroupCoordinator:
        """Decides; handlers ask it and hand what it returns to `carry_out` or `answer_when_durable`.

        It is made for the first record or request: a broker without groups starts without it.
        """
        if self._coordinator is None:
            from pipeline_broker.state.groups.coordinator import (  # noqa: PLC0415 - see above
                GroupCoordinator,
            )

            self._coordinator = GroupCoordinator(group_settings(self._config), self._topics, self._configs_of)
            if self._is_loaded:
                self._begin(self._coordinator)
        return self._coordinator

    @property
    def is_ready(self) -> bool:
        """Whether there is a place for records; clients make one by asking for their coordinator."""
        return self.topic.exists

    def is_joining_long(self, group_id: str) -> bool:
        """Whether a member that joins a group may have much decided, see Group."""
        group = None if self._coordinator is None else self._coordinator.registry.get(group_id)
        return group is not None and group.is_joining_long

    def time(self, now_ms: int) -> int:
        """The time as the coordinator may see it: a wall clock that was set back stands still for a while."""
        self._now_ms = max(self._now_ms, now_ms)
        return self._now_ms

    def replay(self, partition: int, header: BatchHeader, change: GroupRecord, offset: int) -> None:  # noqa: ARG002 - as others need it
        """See Coordinator; what a transaction stores is held until its marker."""
        if header.is_transactional:
            self.coordinator.replay_held(_holder(partition, header.producer_id), change)
        else:
            self.coordinator.replay(change)

    def replay_marker(self, partition: int, header: BatchHeader, batch: memoryview) -> None:
        marker = read_marker(header, batch)
        if marker is not None and self._coordinator is not None:
            self._coordinator.end_transaction(_holder(partition, header.producer_id), committed=marker.is_commit)

    def commit_in_transaction(
        self, request: CommitRequest, producer: tuple[int, int], now_ms: int
    ) -> tuple[tuple[ErrorCode, ...], JournalEntry | None, Callable[[], None]]:
        """Store offsets that become visible when a transaction commits.

        Args:
            request: names the holder of the transaction.
            producer: its id and epoch.
            now_ms: wall clock.

        Returns:
            an error per partition; what must be committed, if anything; and what is to be called then.

        Raises:
            LogError: the producer is fenced.
        """
        forgotten = self.coordinator.forget_before(request)
        if forgotten.writes:
            self.carry_out(forgotten, now_ms)
        result = self.coordinator.commit(request, self.time(now_ms))
        self._announce(self.coordinator)
        write = result.write
        if write is None:
            return result.errors, None, _nothing
        try:
            entry = self.topic.append(write.subject, write.body or write.records, now_ms, producer)
        except LogError:
            self.coordinator.failed(write, ErrorCode.INVALID_PRODUCER_EPOCH, self._now_ms)
            raise
        return result.errors, entry, self._applies(write)

    def partition_of(self, group_id: str) -> int:
        """The partition of the topic that has, or will have, the records of a group."""
        log = self.topic.log_of(group_id)
        return partition_for(group_id, self.topic.partitions) if log is None else log.partition

    def loaded(self, now_ms: int) -> None:
        """All records are replayed."""
        self.time(now_ms)
        self._is_loaded = True
        if self._coordinator is not None:
            self._begin(self._coordinator)

    def _begin(self, coordinator: GroupCoordinator) -> None:
        outcome = coordinator.loaded(self._now_ms)
        assert not outcome.writes, "nobody has joined yet, so nothing has changed"
        if self._logs.knows_all_topics:
            coordinator.forgetting.forget_missing(self._topics)
        self._announce(coordinator)

    def unload(self) -> None:
        """The records are gone: so are the groups."""
        if self._coordinator is not None:
            gone, self._coordinator = self._coordinator, None
            self._answer(gone.unload(self._now_ms))

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        """See Coordinator: the offsets that the transaction stored become visible, or are dropped."""
        if self._coordinator is not None:
            self._coordinator.end_transaction(_holder(log.partition, producer_id), committed=is_commit)

    def settings_changed(self, config: BrokerConfig) -> None:
        """Act on another configuration from now on."""
        self._config = config
        if self._coordinator is not None:
            self._coordinator.change_settings(group_settings(config))

    def topic_changed(self) -> None:
        """Some topic came, grew or went."""
        if self._coordinator is not None:
            self._coordinator.topic_changed()

    def topic_deleted(self, topic: Topic) -> None:
        """What was committed for a topic goes with it."""
        if self._coordinator is not None:
            self.carry_out(self._coordinator.forgetting.forget_topic(topic.name), self._now_ms)

    def expire_member(self, group_id: str, member_id: str | None, now_ms: int) -> bool:
        """Take out a member of a group, or all of them; whether there is such a group and member."""
        outcome = self.coordinator.expire_members(group_id, member_id, self.time(now_ms))
        if outcome is not None:
            self.carry_out(outcome, now_ms)
        return outcome is not None

    def force_rebalance(self, group_id: str, now_ms: int) -> bool:
        """Have the members of a group come to a new agreement; whether there are any."""
        outcome = self.coordinator.force_rebalance(group_id, self.time(now_ms))
        if outcome is not None:
            self.carry_out(outcome, now_ms)
        return outcome is not None

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do."""
        self._announced_ms = None if self._coordinator is None else self._coordinator.next_deadline_ms()
        return self._announced_ms

    def advance(self, now_ms: int) -> None:
        """Do what is due."""
        self.time(now_ms)
        if self._coordinator is not None:
            self.carry_out(self._coordinator.advance(self._now_ms), now_ms)

    def carry_out(self, outcome: Outcome, now_ms: int, own: WaitingMember | None = None) -> Send | Close | Parked:
        """Give the answers, and commit the records behind them.

        Returns:
            the result for the request of `own`: its answer, or that it is parked.
        """
        for write in outcome.writes:
            entry = self._append(write, now_ms)
            if entry is not None:
                self._submit([entry], self._applies(write))
        result = self._answer(outcome, own)
        self._announce(self.coordinator)
        return result

    def answer_when_durable(self, outcome: Outcome, now_ms: int, answer: Final) -> Pending | Final:
        """Give the answers to others, and this one when the records are durable."""
        self._answer(outcome)
        entries, applies = [], []
        for write in outcome.writes:
            entry = self._append(write, now_ms)
            if entry is not None:
                entries.append(entry)
                applies.append(self._applies(write))
        self._announce(self.coordinator)
        if not entries:
            return answer

        def apply() -> None:
            for step in applies:
                step()

        return Pending(entries, answer, apply)

    def _applies(self, write: Write) -> Callable[[], None]:
        """What makes a write come true, in the coordinator that decided it."""
        coordinator = self.coordinator

        def apply() -> None:
            outcome = coordinator.durable(write, self._now_ms)
            if coordinator is self._coordinator:
                self.carry_out(outcome, self._now_ms)

        return apply

    def _append(self, write: Write, now_ms: int) -> JournalEntry | None:
        """Append the records of a write; None when there is no place for them, which the coordinator is told."""
        entry = self.topic.append(write.subject, write.body or write.records, now_ms)
        if entry is None:
            outcome = self.coordinator.failed(write, ErrorCode.NOT_LEADER_OR_FOLLOWER, self._now_ms)
            self.carry_out(outcome, now_ms)
        return entry

    def _answer(self, outcome: Outcome, own: WaitingMember | None = None) -> Send | Close | Parked:
        """Answer those who waited: few at once, and many in turns of their own."""
        result: Send | Close | Parked = PARKED_WITHOUT_FRAME
        are_few = len(outcome.completions) <= ANSWERED_AT_ONCE_MAX
        for completion in outcome.completions:
            waiting = completion.token
            assert isinstance(waiting, WaitingMember)
            if waiting is own:
                result = _encode(waiting, completion.result)
            elif are_few:
                waiting.request.complete(_encode(waiting, completion.result))
            else:
                waiting.request.connection.call_back(
                    waiting.request, functools.partial(_encode, waiting, completion.result)
                )
        return result

    def _announce(self, coordinator: GroupCoordinator) -> None:
        next_ms = coordinator.next_deadline_ms()
        if next_ms is not None and (self._announced_ms is None or next_ms < self._announced_ms):
            self._announced_ms = next_ms
            self._wake_timer()


def _encode(waiting: WaitingMember, result: object) -> Send | Close:
    """The answer; one that cannot be written is one client's misfortune."""
    try:
        return waiting.encode(result)
    except Exception as error:
        logger.exception("the answer to a member could not be written")
        return Close(f"answer failed: {error!r}")


def _holder(partition: int, producer_id: int) -> Holder:
    from pipeline_broker.state.pending_offsets import Holder  # noqa: PLC0415 - see Groups.coordinator

    return Holder(partition, producer_id)


def _nothing() -> None:
    """Nothing is to be called."""
