"""The group coordinator of a broker: appends to `__consumer_offsets`, and answers waiting members.

Counterpart in Kafka: `GroupCoordinatorService`, `GroupMetadataManager`; `state` decides, `broker` appends and
answers.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.coordinator import InternalTopic
from pipeline_broker.broker.ports import Submit, do_nothing
from pipeline_broker.log.errors import LogError
from pipeline_broker.records.control_batch import read_marker
from pipeline_broker.state.internal_topics import OFFSETS_TOPIC
from pipeline_broker.state.partition_for import partition_for
from stages.request import Close, Final, Parked, Pending, Request, Send

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.log.journal.entry import IndexedLog, JournalEntry
    from pipeline_broker.log.log_manager import LogManager
    from pipeline_broker.records.batch import BatchHeader
    from pipeline_broker.state.groups.commits import CommitRequest
    from pipeline_broker.state.groups.coordinator import GroupCoordinator
    from pipeline_broker.state.groups.memory import GroupMemory
    from pipeline_broker.state.groups.pending_offsets import Holder
    from pipeline_broker.state.groups.records import GroupRecord
    from pipeline_broker.state.metadata_records import Topic
    from pipeline_broker.state.outcome import Outcome, Write
    from pipeline_broker.state.topics import TopicCatalogue

__all__ = ["OFFSETS_TOPIC", "Groups", "WaitingMember"]

logger = logging.getLogger(__name__)

# The parts of a request that a group keeps are charged to `pipeline.group.bytes`. With its frame, waiting members would
# fill the memory for requests: 12 JoinGroups of 10 MB stopped all other requests.
PARKED_WITHOUT_FRAME = Parked(needs_frame=False)
# Members that are answered in the turn of the decision: about 1 ms of work. More get turns of their own.
ANSWERED_AT_ONCE_MAX = 32


@attrs.frozen(eq=False)
class WaitingMember:
    """The token of a parked join or sync: its request, and the encoder of the result."""

    request: Request
    encode: Callable[[Any], Send]


class Groups:
    """The consumer, share and classic groups of a broker.

    Only `carry_out` and `answer_when_durable` carry out an `Outcome`. A handler calls `answer_when_durable` if its
    answer depends on the records of the outcome. Any other answer is sent at once.

    Args:
        config: configuration at startup.
        logs: logs with the partitions of `__consumer_offsets`.
        topics: existing topics.
        configs_of: returns the settings of a group, by its id.
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
        """The memory of all groups; None if no coordinator exists yet."""
        return None if self._coordinator is None else self._coordinator.memory

    @property
    def coordinator(self) -> GroupCoordinator:
        """The state machine, made for the first record or request.

        Handlers pass its outcomes to `carry_out` or `answer_when_durable`.
        """
        if self._coordinator is None:
            from pipeline_broker.state.groups.coordinator import (  # noqa: PLC0415 - for brokers with groups
                GroupCoordinator,
            )

            self._coordinator = GroupCoordinator(self._config, self._topics, self._configs_of)
            if self._is_loaded:
                self._begin(self._coordinator)
        return self._coordinator

    @property
    def is_ready(self) -> bool:
        return self.topic.exists

    def is_joining_long(self, group_id: str) -> bool:
        """Return whether a join of the group may take too long for one turn; see `Group.is_joining_long`."""
        group = None if self._coordinator is None else self._coordinator.registry.get(group_id)
        return group is not None and group.is_joining_long

    def time(self, now_ms: int) -> int:
        """Record the time, and return the latest one in milliseconds.

        The result stands still while the wall clock is set back.
        """
        self._now_ms = max(self._now_ms, now_ms)
        return self._now_ms

    def replay(self, partition: int, header: BatchHeader, change: GroupRecord, offset: int) -> None:  # noqa: ARG002 - for the protocol
        if header.is_transactional:
            # Offsets of a transaction stay invisible until its marker is replayed.
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
        """Append offsets that become visible when a transaction commits.

        Args:
            request: the commit, with the holder of the transaction.
            producer: producer id and epoch.
            now_ms: wall clock.

        Returns:
            an error for each partition; the entry to commit, None if no offset is stored; and the function to call once
            the entry is durable.

        Raises:
            LogError: the producer is fenced; no offset is stored.
        """
        forgotten = self.coordinator.forget_before(request)
        # If the topic was created again, old offsets may still wait for deletion. Their tombstones must precede the new
        # offsets.
        if forgotten.writes:
            self.carry_out(forgotten, now_ms)
        result = self.coordinator.commit(request, self.time(now_ms))
        self._announce(self.coordinator)
        write = result.write
        if write is None:
            return result.errors, None, do_nothing
        try:
            entry = self.topic.append(write.subject, write.body or write.records, now_ms, producer)
        except LogError:
            self.coordinator.failed(write, ErrorCode.INVALID_PRODUCER_EPOCH, self._now_ms)
            raise
        return result.errors, entry, self._applies(write)

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` for a group, also before the topic exists."""
        log = self.topic.log_of(group_id)
        return partition_for(group_id, self.topic.partitions) if log is None else log.partition

    def loaded(self, now_ms: int) -> None:
        self.time(now_ms)
        self._is_loaded = True
        if self._coordinator is not None:
            self._begin(self._coordinator)

    def _begin(self, coordinator: GroupCoordinator) -> None:
        outcome = coordinator.loaded(self._now_ms)
        assert not outcome.writes, "no member has joined yet, so no group has changed"
        # If the record of a topic was set aside, a topic that looks missing may exist: its offsets are kept.
        if self._logs.knows_all_topics:
            coordinator.forgetting.forget_missing(self._topics)
        self._announce(coordinator)

    def unload(self) -> None:
        if self._coordinator is not None:
            unloaded, self._coordinator = self._coordinator, None
            self._answer(unloaded.unload(self._now_ms))

    def marker_durable(self, log: IndexedLog, producer_id: int, *, is_commit: bool) -> None:
        if self._coordinator is not None:
            self._coordinator.end_transaction(_holder(log.partition, producer_id), committed=is_commit)

    def settings_changed(self, config: BrokerConfig) -> None:
        self._config = config
        if self._coordinator is not None:
            self._coordinator.change_config(config)

    def topic_changed(self) -> None:
        """Notify the groups that a topic was created, extended or deleted."""
        if self._coordinator is not None:
            self._coordinator.topic_changed()

    def topic_deleted(self, topic: Topic) -> None:
        """Delete the offsets that groups have committed for a topic."""
        if self._coordinator is not None:
            self.carry_out(self._coordinator.forgetting.forget_topic(topic.name), self._now_ms)

    def expire_member(self, group_id: str, member_id: str | None, now_ms: int) -> bool:
        """Remove a member of a group, or all members if `member_id` is None.

        Returns:
            whether the group and the member exist.
        """
        outcome = self.coordinator.expire_members(group_id, member_id, self.time(now_ms))
        if outcome is not None:
            self.carry_out(outcome, now_ms)
        return outcome is not None

    def force_rebalance(self, group_id: str, now_ms: int) -> bool:
        """Start a rebalance of a group; return False if the group is unknown or has no members."""
        outcome = self.coordinator.force_rebalance(group_id, self.time(now_ms))
        if outcome is not None:
            self.carry_out(outcome, now_ms)
        return outcome is not None

    def next_deadline_ms(self) -> int | None:
        self._announced_ms = None if self._coordinator is None else self._coordinator.next_deadline_ms()
        return self._announced_ms

    def advance(self, now_ms: int) -> None:
        self.time(now_ms)
        if self._coordinator is not None:
            self.carry_out(self._coordinator.advance(self._now_ms), now_ms)

    def carry_out(self, outcome: Outcome, now_ms: int, own: WaitingMember | None = None) -> Send | Close | Parked:
        """Answer waiting members, and commit the records of an outcome.

        Args:
            own: the member whose request is being handled.

        Returns:
            the result for the request of `own`: its answer, `Close` if the answer cannot be encoded, or `Parked` if the
            outcome does not answer it.
        """
        for write in outcome.writes:
            entry = self._append(write, now_ms)
            if entry is not None:
                self._submit([entry], self._applies(write))
        # At once: these answers do not depend on the records, see `answer_when_durable`.
        result = self._answer(outcome, own)
        self._announce(self.coordinator)
        return result

    def answer_when_durable(self, outcome: Outcome, now_ms: int, answer: Final) -> Pending | Final:
        """Answer waiting members at once, and the request itself once the records of the outcome are durable.

        Returns:
            `answer` itself if no record is appended.
        """
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
        coordinator = self.coordinator

        def apply() -> None:
            outcome = coordinator.durable(write, self._now_ms)
            # The records may have been unloaded since: the outcome then belongs to groups that no longer exist.
            if coordinator is self._coordinator:
                self.carry_out(outcome, self._now_ms)

        return apply

    def _append(self, write: Write, now_ms: int) -> JournalEntry | None:
        entry = self.topic.append(write.subject, write.body or write.records, now_ms)
        # The topic was deleted. Members retry and look for the new coordinator.
        if entry is None:
            outcome = self.coordinator.failed(write, ErrorCode.NOT_LEADER_OR_FOLLOWER, self._now_ms)
            self.carry_out(outcome, now_ms)
        return entry

    def _answer(self, outcome: Outcome, own: WaitingMember | None = None) -> Send | Close | Parked:
        result: Send | Close | Parked = PARKED_WITHOUT_FRAME
        # A large group is answered in turns, because its assignments take long to encode.
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
            # The timer reads all deadlines when it wakes, so that only an earlier one must wake it.
            self._announced_ms = next_ms
            self._wake_timer()


def _encode(waiting: WaitingMember, result: object) -> Send | Close:
    try:
        return waiting.encode(result)
    except Exception as error:  # it closes the connection of one client; the other members get their answers
        logger.exception("cannot encode the response to a group member")
        return Close(f"the response to a group member cannot be encoded: {error!r}")


def _holder(partition: int, producer_id: int) -> Holder:
    from pipeline_broker.state.groups.pending_offsets import Holder  # noqa: PLC0415 - for brokers with groups

    return Holder(partition, producer_id)
