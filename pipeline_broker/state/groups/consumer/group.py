"""A consumer group: its epochs, its members, its target assignment.

Rules of this room: see `member.py`. The state is worked out from the epochs, never stored:

    Empty         no members
    Assigning     the target assignment is older than the group's epoch
    Reconciling   a member is not where the target assignment wants it
    Stable        all members are
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar

import attrs

from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.consumer.member import (
    LEAVING_EPOCH,
    NOTHING,
    CurrentAssignment,
    Member,
    MemberMetadata,
    Partitions,
)
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, ResolvedRegex, Subject, TargetEpoch, Update
from pipeline_broker.state.groups.group import MEMBERS_AT_ONCE_MAX, GroupType, OffsetAge
from pipeline_broker.state.groups.memory import ENTRY_BYTES, HeldBytes, sizes_of
from pipeline_broker.wire.error import ErrorCode

__all__ = ["ConsumerGroup"]

GONE = attrs.evolve(NOTHING, member_epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH)
"""What remains of a member whose assignment is gone, until the rest of it goes."""


@attrs.define(eq=False)
class ConsumerGroup:
    """One group.

    Attributes:
        epoch: 0 until the group is complete for the first time.
        metadata_hash: of the topics as they were when `epoch` was decided.
        assignment_epoch: the epoch that `target` was made for.
        assigned_ms: when it was.
        target: member id -> what it is to own.
        members, static_members: by id, and the ids by instance id.
        regexes: the resolved regular expressions.
        has_partition_metadata: whether a record of former brokers is to be forgotten.
        topics_version: that of all topics when `metadata_hash` was compared with them; -1 before that.
        is_deleted: see Group; the registry does not decide on it any more then.
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
        """Take over one change."""
        _APPLY[update.subject](self, update.name, update.value)

    def copy(self) -> ConsumerGroup:
        """Another group with the same content, which changes on its own."""
        other = ConsumerGroup(group_id=self.group_id)
        other.memory.add(self.memory.count)  # part of no total: the copy is not counted again
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
            before = Member(member_id)
            self._count(before, 1)
        self._release(before)
        member = attrs.evolve(before, current=GONE if value is None else value)
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

    # What is asked while something is decided

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Who owns a partition, or has been told to give it back and has not."""
        return self._owners.get((topic_id, partition))

    def target_of(self, member_id: str) -> Partitions:
        """What a member is to own."""
        return self.target.get(member_id, {})

    def regex_members(self, regex: str) -> int:
        """How many members subscribe to a regular expression."""
        return self._regex_members.get(regex, 0)

    @property
    def subscribed_regexes(self) -> Iterator[str]:
        """All regular expressions that members subscribe to."""
        return iter(self._regex_members)

    def topics_of(self, metadata: MemberMetadata) -> frozenset[str]:
        """What a member subscribes to, by name or by a regular expression that is resolved."""
        resolved = self.regexes.get(metadata.topic_regex)
        return metadata.topic_names if resolved is None else metadata.topic_names | resolved.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """What any member subscribes to."""
        topics = set(self._names)
        for regex in self._regex_members:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                topics |= resolved.topics
        return frozenset(topics)

    def supports_classic(self, protocols: Mapping[str, bytes]) -> bool:
        """Whether somebody with these protocols has one in common with all classic members."""
        return any(self._classic_protocols.get(name, 0) == self.classic_members for name in protocols)

    @property
    def preferred_assignor(self) -> str | None:
        """The assignor that most members asked for."""
        names = Counter(member.metadata.server_assignor for member in self.members.values())
        del names[None]
        return names.most_common(1)[0][0] if names else None

    # What is asked of groups of all kinds, see `state/groups/group.py`

    @property
    def state_name(self) -> str:
        """See the rules of this file."""
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
        """See Group: partitions are assigned anew to all."""
        return len(self.members) > MEMBERS_AT_ONCE_MAX

    @property
    def is_deletable_unasked(self) -> bool:
        return not self.members

    def commit_error(self, request: CommitRequest) -> ErrorCode:
        """See Group: of a member, in its epoch; to an empty group, of anybody.

        A member that is behind may commit what it owns without a break since the epoch that it knows (KIP-1251); with
        anything else beside it, it may commit nothing.
        """
        epoch = request.generation_id
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_classic = member.metadata.classic is not None
        if not is_classic and not request.missing_group_named and request.holder is None:
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
        """See Group: what it consumes is known of each member."""
        return ErrorCode.NONE

    def offset_age(self) -> OffsetAge | None:
        return lambda committed: committed.commit_timestamp_ms


def _size_of(partitions: Mapping[bytes, Collection[int]]) -> int:
    return 2 * ENTRY_BYTES * sum(map(len, partitions.values()))


def _add(counter: Counter[str], name: str, change: int) -> None:
    counter[name] += change
    if not counter[name]:  # names are the clients' choice: keep none that nobody has
        del counter[name]


def _is_owned_since(current: CurrentAssignment, partition: PartitionCommit, epoch: int) -> bool:
    """Whether a partition was assigned to a member in `epoch` or before, without a break."""
    for owned in (current.assigned, current.revoking):
        assigned_epoch = owned.get(partition.topic_id, {}).get(partition.partition)
        if assigned_epoch is not None:
            return assigned_epoch <= epoch
    return False


_APPLY: Mapping[Subject, Callable[[ConsumerGroup, str, Any], None]] = {
    Subject.GROUP_EPOCH: ConsumerGroup._apply_epoch,  # noqa: SLF001 - the table is part of the class
    Subject.PARTITION_METADATA: ConsumerGroup._apply_partition_metadata,  # noqa: SLF001 - see above
    Subject.MEMBER: ConsumerGroup._apply_member,  # noqa: SLF001 - see above
    Subject.TARGET_EPOCH: ConsumerGroup._apply_target_epoch,  # noqa: SLF001 - see above
    Subject.TARGET: ConsumerGroup._apply_target,  # noqa: SLF001 - see above
    Subject.CURRENT: ConsumerGroup._apply_current,  # noqa: SLF001 - see above
    Subject.REGEX: ConsumerGroup._apply_regex,  # noqa: SLF001 - see above
}
