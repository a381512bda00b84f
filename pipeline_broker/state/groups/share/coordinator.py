"""The share groups of a broker (KIP-932): membership, assignments and administration.

A heartbeat is decided at once and answered when its records are durable. Its changes count for the next heartbeat
immediately, but clients see them only when they are durable. A member with an unexpected epoch is fenced and must
rejoin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.group_settings import ShareGroupSettings
from pipeline_broker.config.properties import Settings
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.epochs import next_epoch
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.kind import DUE_AT_ONCE_MAX
from pipeline_broker.state.groups.memory import SHARE_STATE_BYTES
from pipeline_broker.state.groups.registry import GroupRegistry, check_replaceable
from pipeline_broker.state.groups.share import records
from pipeline_broker.state.groups.share.assignor import ASSIGNORS
from pipeline_broker.state.groups.share.messages import (
    DescribedShareGroup,
    FindTopic,
    FoundTopic,
    Heartbeat,
    HeartbeatAnswer,
    ShareGroupError,
    Subscribed,
)
from pipeline_broker.state.groups.share.share_group import JOINING_EPOCH, ShareGroup, ShareMember
from pipeline_broker.state.groups.share.topics import hash_of, subscribed_topics
from pipeline_broker.state.outcome import Outcome, StateRecord, Write

__all__ = ["ShareGroupChange", "ShareGroups"]

LEAVING_EPOCH = -1
# Partitions that one heartbeat may initialize. The next heartbeats of the group initialize the rest.
PARTITIONS_BEGUN_MAX = 1_000


@attrs.frozen(eq=False)
class ShareGroupChange:
    """The description to show once the records of a write are durable."""

    group: ShareGroup
    shown: DescribedShareGroup


class ShareGroups:
    """All share groups of a broker; see `GroupKind`.

    Args:
        config: the broker's configuration.
        registry: the groups of every kind.
        configs_of: returns a group's own settings, by its id.
    """

    changes: tuple[type, ...] = (ShareGroupChange,)

    def __init__(self, config: BrokerConfig, registry: GroupRegistry, configs_of: Callable[[str], Settings]) -> None:
        self.config = config
        self._registry = registry
        self._configs_of = configs_of
        self._sessions: Deadlines[tuple[str, str]] = Deadlines()
        self._replayed: dict[str, ShareGroup] = {}

    # Members

    def heartbeat(self, heartbeat: Heartbeat, find_topic: FindTopic, now_ms: int) -> HeartbeatAnswer:
        """Add, keep or remove a member.

        Raises:
            ShareGroupError: the group is missing or of another kind, the group or its memory is full, or the member is
                unknown or fenced.
        """
        if heartbeat.member_epoch == LEAVING_EPOCH:
            return self._leave(heartbeat)
        settings = self._settings(heartbeat.group_id)
        group = self._group(heartbeat.group_id, is_joining=heartbeat.member_epoch == JOINING_EPOCH)
        member = group.members.get(heartbeat.member_id)
        is_new = member is None
        if member is None:
            member = self._new_member(group, heartbeat)
        else:
            _check_epoch(member, heartbeat.member_epoch)
        held = 0 if is_new else member.size_bytes
        member = attrs.evolve(member)  # a copy, so that the member stays unchanged if the request is refused
        changed = member.update(heartbeat)
        memory = self._registry.memory
        if not memory.admits(held, member.size_bytes):
            raise ShareGroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, memory.refusal)
        self._registry.put(group)
        group.members[member.member_id] = member
        group.memory.add(member.size_bytes - held)
        written: list[StateRecord] = []
        if is_new or changed:
            written.append(records.member_record(group.group_id, member))
        topics = subscribed_topics(group, find_topic)
        begins = self._follow_topics(group, topics, written, must_rise=is_new or changed)
        is_joining = heartbeat.member_epoch == JOINING_EPOCH
        # A joining member does not wait for the interval: otherwise it would be idle until its next heartbeat.
        is_due = is_joining or now_ms >= group.assigned_ms + settings.assignment_interval_ms
        if group.assignment_epoch < group.epoch and is_due:
            self._assign(group, topics, now_ms, written)
        is_reassigned = self._reconcile(group, member, written)
        self._sessions.set((group.group_id, member.member_id), now_ms + settings.session_timeout_ms)
        must_send = is_reassigned or is_joining
        return HeartbeatAnswer(
            member.epoch,
            settings.heartbeat_interval_ms,
            member.assignment if must_send else None,
            begins,
            self._write(group, written),
        )

    def _settings(self, group_id: str) -> ShareGroupSettings:
        return ShareGroupSettings.of(self.config, self._configs_of(group_id))

    def _group(self, group_id: str, *, is_joining: bool) -> ShareGroup:
        group = self._registry.get(group_id)
        if isinstance(group, ShareGroup):
            if group.is_deleted and is_joining:
                # The id is free as soon as a deletion begins: its tombstones precede the records of the new group.
                return ShareGroup(group_id)
            if not group.is_deleted:
                return group
        elif group is not None and not group.is_deleted:
            raise ShareGroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if is_joining:
            return ShareGroup(group_id)
        raise ShareGroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    def _new_member(self, group: ShareGroup, heartbeat: Heartbeat) -> ShareMember:
        if heartbeat.member_epoch != JOINING_EPOCH:
            raise ShareGroupError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {heartbeat.member_id} is not a member of group {group.group_id}."
            )
        size_max = self.config.group_share_max_size
        if len(group.members) >= size_max:
            raise ShareGroupError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {size_max} members.",
            )
        return ShareMember(heartbeat.member_id)

    def _leave(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        group = self._group(heartbeat.group_id, is_joining=False)
        if heartbeat.member_id not in group.members:
            raise ShareGroupError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {heartbeat.member_id} is not a member of group {group.group_id}."
            )
        return HeartbeatAnswer(LEAVING_EPOCH, 0, None, (), self._remove(group, heartbeat.member_id))

    def _remove(self, group: ShareGroup, member_id: str) -> Write:
        group.memory.add(-group.members.pop(member_id).size_bytes)
        group.target.pop(member_id, None)
        group.count_target()
        self._sessions.cancel((group.group_id, member_id))
        group.epoch = next_epoch(group.epoch)
        written = [*records.member_tombstones(group.group_id, member_id), records.group_record(group)]
        if not group.members:
            # As in Kafka, the assignment of an empty group is done, and the next one need not wait for the interval.
            group.assignment_epoch, group.assigned_ms = group.epoch, 0
            written.append(records.target_epoch_record(group))
        write = self._write(group, written)
        assert write is not None, "it has records"
        return write

    def expire_member(self, group: ShareGroup, member_id: str, now_ms: int) -> Outcome:  # noqa: ARG002 - GroupKind's
        return Outcome(writes=[self._remove(group, member_id)])

    def force_rebalance(self, group: ShareGroup, now_ms: int) -> Outcome:  # noqa: ARG002 - GroupKind's signature
        group.epoch = next_epoch(group.epoch)
        write = self._write(group, [records.group_record(group)])
        return Outcome(writes=[] if write is None else [write])

    # Assignments

    def _follow_topics(
        self, group: ShareGroup, topics: Mapping[str, FoundTopic], written: list[StateRecord], *, must_rise: bool
    ) -> list[Subscribed]:
        """Bump the epoch if members or topics have changed; return the partitions that are new to the group."""
        metadata_hash = hash_of(topics)
        is_new = must_rise or metadata_hash != group.metadata_hash
        new = self._partitions_to_begin(group, topics)
        if is_new or new:
            group.epoch = next_epoch(group.epoch)
            group.metadata_hash = metadata_hash
            written.append(records.group_record(group))
        for name, partitions in new.items():
            group.begin(topics[name].topic_id, name, partitions)
        if new:
            written.append(records.initialized_record(group))
        return [
            Subscribed(topics[name].topic_id, partition, group.epoch)
            for name, partitions in new.items()
            for partition in partitions
        ]

    def _partitions_to_begin(self, group: ShareGroup, topics: Mapping[str, FoundTopic]) -> dict[str, list[int]]:
        """Return partitions that are new to the group or have lost their state, by topic name.

        Returns at most PARTITIONS_BEGUN_MAX of them, and no more than the memory bound allows. Later heartbeats begin
        the others.
        """
        new = {}
        left = min(PARTITIONS_BEGUN_MAX, self._registry.memory.free_bytes // SHARE_STATE_BYTES)
        for name, topic in topics.items():
            _, known = group.initialized.get(topic.topic_id, ("", frozenset[int]()))
            if len(known) >= topic.partitions and not topic.lost:
                continue
            if not left:
                break
            partitions = [each for each in range(topic.partitions) if each not in known or each in topic.lost][:left]
            left -= len(partitions)
            if partitions:
                new[name] = partitions
        return new

    def _assign(
        self, group: ShareGroup, topics: Mapping[str, FoundTopic], now_ms: int, written: list[StateRecord]
    ) -> None:
        subscribers: dict[bytes, list[str]] = {topic.topic_id: [] for topic in topics.values()}
        for member in group.members.values():
            for name in member.topics:
                if name in topics:
                    subscribers[topics[name].topic_id].append(member.member_id)
        partitions = {topic_id: begun for topic_id, (_, begun) in group.initialized.items()}
        target = ASSIGNORS[self.config.share_assignor](subscribers, partitions, group.target)
        for member_id in group.members:
            assignment = target.get(member_id, {})
            if assignment != group.target.get(member_id):
                group.target[member_id] = assignment
                written.append(records.target_record(group.group_id, member_id, assignment))
        group.count_target()
        group.assignment_epoch, group.assigned_ms = group.epoch, now_ms
        written.append(records.target_epoch_record(group))

    @staticmethod
    def _reconcile(group: ShareGroup, member: ShareMember, written: list[StateRecord]) -> bool:
        """Move a member to its target assignment; return whether its assignment has changed."""
        target = group.target.get(member.member_id, {})
        is_changed = target != member.assignment
        if member.epoch != group.assignment_epoch or is_changed:
            member.previous_epoch, member.epoch = member.epoch, group.assignment_epoch
            member.assignment = target
            written.append(records.current_record(group.group_id, member))
        return is_changed

    def _write(self, group: ShareGroup, written: list[StateRecord]) -> Write | None:
        if not written:
            return None
        return Write(group.group_id, tuple(written), ShareGroupChange(group, group.described()))

    # Administration

    def find(self, group_id: str) -> ShareGroup | None:
        group = self._registry.get(group_id)
        return group if isinstance(group, ShareGroup) and not group.is_deleted else None

    def existing(self, group_id: str) -> ShareGroup:
        """Return a share group in its pending state.

        Raises:
            ShareGroupError: the group is missing or of another kind.
        """
        return self._group(group_id, is_joining=False)

    def describe(self, group_id: str) -> DescribedShareGroup:
        """Describe a group in its durable state.

        Raises:
            ShareGroupError: the group is missing or of another kind.
        """
        group = self._registry.shown(group_id)
        if group is None:
            raise ShareGroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise ShareGroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        assert group.shown is not None, "set before the registry shows the group"
        return group.shown

    def create(self, group_id: str, partitions: int) -> tuple[ShareGroup, list[StateRecord]]:
        """Return the group to set offsets of, creating it without members if necessary, and the records to append.

        Args:
            partitions: number of partitions to set offsets of.

        Raises:
            ShareGroupError: the group is of another kind, or the memory bound is reached.
        """
        group = self._group(group_id, is_joining=True)
        memory = self._registry.memory
        if not memory.has_room(SHARE_STATE_BYTES * partitions):
            raise ShareGroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, memory.refusal)
        if self._registry.get(group_id) is group:
            return group, []
        self._registry.put(group)
        group.epoch = group.assignment_epoch = 1
        return group, [records.group_record(group), records.target_epoch_record(group)]

    @staticmethod
    def begin(group: ShareGroup, name: str, topic_id: bytes, partitions: frozenset[int]) -> StateRecord:
        """Add partitions with a state in the share coordinator; return the record to append."""
        group.begin(topic_id, name, partitions)
        return records.initialized_record(group)

    @staticmethod
    def forget(group: ShareGroup, topic_ids: set[bytes]) -> list[StateRecord]:
        """Remove topics without a state in the share coordinator; return the records to append."""
        removed = topic_ids & group.initialized.keys()
        for topic_id in removed:
            group.forget(topic_id)
        return [records.initialized_record(group)] if removed else []

    def write(self, group: ShareGroup, written: list[StateRecord]) -> Write | None:
        """Return the records of an administrator's change as one write; None if it has none."""
        return self._write(group, written)

    def all(self) -> list[ShareGroup]:
        return [group for group in self._registry.all() if isinstance(group, ShareGroup) and not group.is_deleted]

    # GroupKind

    def replay(self, change: records.ShareGroupRecord) -> None:
        group_id = change.group_id
        group = self._registry.get(group_id)
        if not isinstance(group, ShareGroup):
            if change.value is None:
                return
            check_replaceable(group, GroupType.SHARE)
            if group is not None:
                self._registry.hide(group)
            group = ShareGroup(group_id)
            self._registry.put(group)
        self._replayed[group_id] = group
        if change.value is not None:
            records.replay(group, change)
        elif change.kind == records.MEMBER:
            group.members.pop(change.member_id, None)
            group.target.pop(change.member_id, None)
        elif change.kind == records.GROUP:
            self._registry.remove(group)
            del self._replayed[group_id]

    def loaded(self, now_ms: int) -> Outcome:
        for group in self._replayed.values():
            settings = self._settings(group.group_id)
            group.shown = group.described()
            group.memory.add(sum(member.size_bytes for member in group.members.values()))
            group.count_target()
            self._registry.show(group)
            for member_id in group.members:
                self._sessions.set((group.group_id, member_id), now_ms + settings.session_timeout_ms)
        self._replayed.clear()
        return Outcome()

    def unload(self, now_ms: int) -> Outcome:
        del now_ms
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        return self._sessions.next_ms()

    def advance(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        for group_id, member_id in self._sessions.pop_due(now_ms, DUE_AT_ONCE_MAX):
            group = self.find(group_id)
            if group is not None and member_id in group.members:
                outcome.writes.append(self._remove(group, member_id))
        return outcome

    def durable(self, change: ShareGroupChange, now_ms: int) -> Outcome:
        del now_ms
        change.group.shown = change.shown
        # The group may have been deleted since the write.
        if self._registry.get(change.group.group_id) is change.group:
            self._registry.show(change.group)
        return Outcome()

    def failed(self, change: ShareGroupChange, error: ErrorCode, now_ms: int) -> Outcome:
        """Do nothing.

        A broker stops if its journal fails, and a request that exceeds the disk space is refused before it gets here.
        """
        del change, error, now_ms
        return Outcome()

    def committed(self, group: Any, member_id: str, now_ms: int) -> None:
        """Do nothing: members of share groups commit no offsets."""

    def delete(self, group: ShareGroup, now_ms: int) -> tuple[StateRecord, ...]:
        del now_ms
        group.is_deleted = True
        return records.group_tombstones(group.group_id, group.members)

    def deleted(self, group: ShareGroup) -> None:
        if group.is_deleted:
            self._registry.remove(group)
            self._registry.hide(group)

    def not_deleted(self, group: ShareGroup, now_ms: int) -> None:
        del now_ms
        group.is_deleted = False

    def topic_changed(self) -> None: ...  # each heartbeat checks the topics


def _check_epoch(member: ShareMember, epoch: int) -> None:
    # The response with the new epoch may have been lost, so the previous one is accepted.
    if epoch in (JOINING_EPOCH, member.epoch, member.previous_epoch):
        return
    kind = "greater" if epoch > member.epoch else "smaller"
    raise ShareGroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {kind} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )
