"""A consumer group: its epochs, its members and its target assignment.

The state is derived from the epochs and never stored:

    Empty         the group has no members
    Assigning     the target assignment is older than the group epoch
    Reconciling   a member has not reached the target assignment
    Stable        all members have reached it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import attrs

from pipeline_broker.state.groups.commits import PartitionCommit
from pipeline_broker.state.groups.consumer.member import Member, MemberMetadata
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, ResolvedRegex, Subject
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.memory import ENTRY_BYTES, sizes_of
from pipeline_broker.state.groups.modern.group import ModernGroup
from pipeline_broker.state.groups.modern.updates import Subjects

__all__ = ["ConsumerGroup"]


@attrs.define(eq=False)
class ConsumerGroup(ModernGroup):
    """A group of the consumer protocol.

    Attributes:
        regexes: resolved regular expressions of subscriptions.
        has_partition_metadata: a record written by Kafka before 4.1 exists and must get a tombstone.
    """

    MEMBER = Member
    SUBJECTS = Subjects(Subject.MEMBER, Subject.TARGET, Subject.CURRENT, Subject.TARGET_EPOCH)
    group_type: ClassVar[GroupType] = GroupType.CONSUMER
    protocol_type_name: ClassVar[str] = "consumer"

    members: dict[str, Member] = attrs.Factory(dict)
    regexes: dict[str, ResolvedRegex] = attrs.Factory(dict)
    has_partition_metadata: bool = False
    _owners: dict[tuple[bytes, int], str] = attrs.Factory(dict)
    _names: Counter[str] = attrs.Factory(Counter)
    _regex_members: Counter[str] = attrs.Factory(Counter)
    _classic_protocols: Counter[str] = attrs.Factory(Counter)
    classic_members: int = 0

    def _apply_epoch(self, _: str, value: GroupEpoch | None) -> None:
        self.epoch, self.metadata_hash = (0, 0) if value is None else (value.epoch, value.metadata_hash)

    def _apply_partition_metadata(self, _: str, value: bool | None) -> None:
        self.has_partition_metadata = value is not None

    def _apply_regex(self, regex: str, value: ResolvedRegex | None) -> None:
        for resolved, sign in ((self.regexes.get(regex), -1), (value, 1)):
            if resolved is not None:
                self.memory.add(sign * (sizes_of((regex,)) + ENTRY_BYTES * (1 + len(resolved.topics))))
        if value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = value

    def own(self, member: Member) -> None:
        for owned in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    self._owners[topic_id, partition] = member.member_id

    def disown(self, member: Member) -> None:
        for owned in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    # During replay, another member may own the partition already.
                    if self._owners.get((topic_id, partition)) == member.member_id:
                        del self._owners[topic_id, partition]

    def count(self, member: Member, change: int) -> None:
        super().count(member, change)
        metadata = member.metadata
        for name in metadata.topic_names:
            _add(self._names, name, change)
        if metadata.topic_regex:
            _add(self._regex_members, metadata.topic_regex, change)
        if metadata.classic is not None:
            self.classic_members += change
            for name, _ in metadata.classic.protocols:
                _add(self._classic_protocols, name, change)

    # Queries

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Return the id of the member that owns a partition; None if it is free.

        A partition stays owned until its revocation is confirmed.
        """
        return self._owners.get((topic_id, partition))

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

    def is_replaceable(self, holder: Member) -> bool:
        # A static member may switch from the classic protocol.
        return holder.metadata.classic is not None or super().is_replaceable(holder)

    def is_classic(self, member: Member) -> bool:
        return member.metadata.classic is not None

    # The interface `Group`, see `state/groups/group.py`

    def key_of(self, partition: PartitionCommit) -> bytes:
        return partition.topic_id

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._names or any(
            topic in resolved.topics for regex, resolved in self.regexes.items() if regex in self._regex_members
        )

    _APPLY: ClassVar[Mapping[Any, Callable[[Any, str, Any], None]]] = {
        Subject.GROUP_EPOCH: _apply_epoch,
        Subject.PARTITION_METADATA: _apply_partition_metadata,
        Subject.MEMBER: ModernGroup.apply_member,
        Subject.TARGET_EPOCH: ModernGroup.apply_target_epoch,
        Subject.TARGET: ModernGroup.apply_target,
        Subject.CURRENT: ModernGroup.apply_current,
        Subject.REGEX: _apply_regex,
    }


def _add(counter: Counter[str], name: str, change: int) -> None:
    counter[name] += change
    if not counter[name]:  # clients choose the names: a name without members would leak
        del counter[name]
