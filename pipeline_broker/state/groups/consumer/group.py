"""A consumer group: its epochs, its members and its target assignment.

The state is derived from the epochs and never stored:

    Empty         the group has no members
    Assigning     the target assignment is older than the group epoch
    Reconciling   a member has not reached the target assignment
    Stable        all members have reached it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.consumer.member import (
    LEAVING_EPOCH,
    NO_ASSIGNMENT,
    CurrentAssignment,
    Member,
    MemberMetadata,
    Partitions,
)
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, ResolvedRegex, Subject, TargetEpoch, Update
from pipeline_broker.state.groups.group import MEMBERS_AT_ONCE_MAX, GroupType, OffsetAge
from pipeline_broker.state.groups.memory import ENTRY_BYTES, HeldBytes, sizes_of

__all__ = ["ConsumerGroup"]

# The assignment of a member between the tombstone of its assignment and the tombstone of the member itself.
REMOVED = attrs.evolve(NO_ASSIGNMENT, member_epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH)


@attrs.define(eq=False)
class ConsumerGroup:
    """A group of the consumer protocol.

    Attributes:
        epoch: the group epoch; 0 until the group is complete for the first time.
        metadata_hash: hash of the subscribed topics when `epoch` was last bumped.
        assignment_epoch: the group epoch for which `target` was computed.
        assigned_ms: the time at which `target` was computed.
        target: target assignment by member id.
        static_members: member ids by instance id.
        regexes: resolved regular expressions of subscriptions.
        has_partition_metadata: a record written by Kafka before 4.1 exists and must get a tombstone.
        topics_version: version of the topics when `metadata_hash` was last compared with them; -1 if never.
        is_deleted: see Group. Always False, because the registry forgets a consumer group as soon as its deletion
            begins.
    """

    group_type: ClassVar[GroupType] = GroupType.CONSUMER
    protocol_type_name: ClassVar[str] = "consumer"
    is_deleted: ClassVar[bool] = False

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assigned_ms: int = 0
    target: dict[str, Partitions] = attrs.Factory(dict)
    members: dict[str, Member] = attrs.Factory(dict)
    static_members: dict[str, str] = attrs.Factory(dict)
    regexes: dict[str, ResolvedRegex] = attrs.Factory(dict)
    has_partition_metadata: bool = False
    topics_version: int = -1
    memory: HeldBytes = attrs.Factory(HeldBytes)
    _owners: dict[tuple[bytes, int], str] = attrs.Factory(dict)
    _names: Counter[str] = attrs.Factory(Counter)
    _regex_members: Counter[str] = attrs.Factory(Counter)
    _classic_protocols: Counter[str] = attrs.Factory(Counter)
    classic_members: int = 0

    def apply(self, update: Update) -> None:
        self._APPLY[update.subject](self, update.name, update.value)

    def copy(self) -> ConsumerGroup:
        other = ConsumerGroup(group_id=self.group_id)
        other.memory.add(self.memory.count)  # not part of a total: the group is counted only once
        for field in attrs.fields(ConsumerGroup):
            value = getattr(self, field.name)
            if field.name != "memory":
                setattr(other, field.name, type(value)(value) if isinstance(value, dict) else value)
        return other

    def _apply_epoch(self, _: str, value: GroupEpoch | None) -> None:
        self.epoch, self.metadata_hash = (0, 0) if value is None else (value.epoch, value.metadata_hash)

    def _apply_partition_metadata(self, _: str, value: bool | None) -> None:
        self.has_partition_metadata = value is not None

    def _apply_target_epoch(self, _: str, value: TargetEpoch | None) -> None:
        self.assignment_epoch, self.assigned_ms = (0, 0) if value is None else (value.epoch, value.timestamp_ms)

    def _apply_target(self, member_id: str, value: Partitions | None) -> None:
        self.memory.add(_size_of(value or {}) - _size_of(self.target.get(member_id, {})))
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = value

    def _apply_regex(self, regex: str, value: ResolvedRegex | None) -> None:
        for resolved, sign in ((self.regexes.get(regex), -1), (value, 1)):
            if resolved is not None:
                self.memory.add(sign * (sizes_of((regex,)) + ENTRY_BYTES * (1 + len(resolved.topics))))
        if value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = value

    def _apply_member(self, member_id: str, value: MemberMetadata | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count(before, -1)
        if value is None:
            if before is not None:
                self._release(before)
                del self.members[member_id]
            return
        member = Member(member_id, value) if before is None else attrs.evolve(before, metadata=value)
        self.members[member_id] = member
        self._count(member, 1)

    def _apply_current(self, member_id: str, value: CurrentAssignment | None) -> None:
        before = self.members.get(member_id)
        if before is None:
            if value is None:
                return
            # During replay: compaction may have moved the record of the member after this one.
            before = Member(member_id)
            self._count(before, 1)
        self._release(before)
        member = attrs.evolve(before, current=REMOVED if value is None else value)
        self.members[member_id] = member
        self.memory.add(_size_of(member.current.assigned) + _size_of(member.current.revoking))
        for owned in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    self._owners[topic_id, partition] = member_id

    def _release(self, member: Member) -> None:
        self.memory.add(-_size_of(member.current.assigned) - _size_of(member.current.revoking))
        for owned in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    # During replay, another member may own the partition already.
                    if self._owners.get((topic_id, partition)) == member.member_id:
                        del self._owners[topic_id, partition]

    def _count(self, member: Member, change: int) -> None:
        metadata = member.metadata
        self.memory.add(change * metadata.size_bytes)
        if metadata.instance_id is not None:
            if change > 0:
                self.static_members[metadata.instance_id] = member.member_id
            elif self.static_members.get(metadata.instance_id) == member.member_id:
                del self.static_members[metadata.instance_id]
        for name in metadata.topic_names:
            _add(self._names, name, change)
        if metadata.topic_regex:
            _add(self._regex_members, metadata.topic_regex, change)
        if metadata.classic is not None:
            self.classic_members += change
            for name, _ in metadata.classic.protocols:
                _add(self._classic_protocols, name, change)

    # Queries

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Return the id of the member that owns a partition; None if it is free.

        A partition stays owned until its revocation is confirmed.
        """
        return self._owners.get((topic_id, partition))

    def target_of(self, member_id: str) -> Partitions:
        return self.target.get(member_id, {})

    def regex_members(self, regex: str) -> int:
        return self._regex_members.get(regex, 0)

    @property
    def subscribed_regexes(self) -> Iterator[str]:
        return iter(self._regex_members)

    def topics_of(self, metadata: MemberMetadata) -> frozenset[str]:
        """Return the topics that a member subscribes to, by name or by a resolved regular expression."""
        resolved = self.regexes.get(metadata.topic_regex)
        return metadata.topic_names if resolved is None else metadata.topic_names | resolved.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        topics = set(self._names)
        for regex in self._regex_members:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                topics |= resolved.topics
        return frozenset(topics)

    def supports_classic(self, protocols: Mapping[str, bytes]) -> bool:
        return any(self._classic_protocols.get(name, 0) == self.classic_members for name in protocols)

    @property
    def preferred_assignor(self) -> str | None:
        """The assignor that most members have requested; None if no member has requested one."""
        names = Counter(member.metadata.server_assignor for member in self.members.values())
        del names[None]
        return names.most_common(1)[0][0] if names else None

    # The interface `Group`, see `state/groups/group.py`

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        stable = all(member.current.is_reconciled_to(epoch) for member in self.members.values())
        return "Stable" if stable else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_joining_long(self) -> bool:
        # A join recomputes the assignment of all members.
        return len(self.members) > MEMBERS_AT_ONCE_MAX

    @property
    def is_deletable_unasked(self) -> bool:
        return not self.members

    def commit_error(self, request: CommitRequest) -> ErrorCode:
        """Return NONE if a commit is acceptable: from a member in its current epoch, or from any client if Empty.

        A member in an older epoch may commit partitions that it has owned without a break since that epoch (KIP-1251).
        A single other partition makes the whole commit fail.
        """
        epoch = request.generation_id
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_classic = member.metadata.classic is not None
        if not is_classic and not request.missing_group_named and request.holder is None:
            # OffsetCommit before version 9 has no member epoch.
            return ErrorCode.UNSUPPORTED_VERSION
        current = member.current
        is_behind = 0 <= epoch < current.member_epoch
        if epoch == current.member_epoch or (
            is_behind and all(_is_owned_since(current, each, epoch) for each in request.partitions)
        ):
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch == member.current.member_epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.metadata.classic is None else ErrorCode.ILLEGAL_GENERATION

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._names or any(
            topic in resolved.topics for regex, resolved in self.regexes.items() if regex in self._regex_members
        )

    def delete_offsets_error(self) -> ErrorCode:
        return ErrorCode.NONE

    def offset_age(self) -> OffsetAge | None:
        return lambda committed: committed.commit_timestamp_ms

    _APPLY: ClassVar[Mapping[Subject, Callable[[ConsumerGroup, str, Any], None]]] = {
        Subject.GROUP_EPOCH: _apply_epoch,
        Subject.PARTITION_METADATA: _apply_partition_metadata,
        Subject.MEMBER: _apply_member,
        Subject.TARGET_EPOCH: _apply_target_epoch,
        Subject.TARGET: _apply_target,
        Subject.CURRENT: _apply_current,
        Subject.REGEX: _apply_regex,
    }


def _size_of(partitions: Mapping[bytes, Collection[int]]) -> int:
    return 2 * ENTRY_BYTES * sum(map(len, partitions.values()))


def _add(counter: Counter[str], name: str, change: int) -> None:
    counter[name] += change
    if not counter[name]:  # clients choose the names: a name without members would leak
        del counter[name]


def _is_owned_since(current: CurrentAssignment, partition: PartitionCommit, epoch: int) -> bool:
    for owned in (current.assigned, current.revoking):
        assigned_epoch = owned.get(partition.topic_id, {}).get(partition.partition)
        if assigned_epoch is not None:
            return assigned_epoch <= epoch
    return False
