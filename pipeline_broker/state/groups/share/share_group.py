"""A share group: its members, their subscriptions and their assignments.

Epochs are those of KIP-932. The group epoch increases when members or topics change, and the assignment epoch follows
it. A member's epoch is that of the assignment it has received. `coordinator.py` makes the changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.commits import CommitRequest
from pipeline_broker.state.groups.group import MEMBERS_AT_ONCE_MAX, GroupType, OffsetAge
from pipeline_broker.state.groups.memory import (
    ENTRY_BYTES,
    MEMBER_BYTES,
    SHARE_STATE_BYTES,
    HeldBytes,
    size_of_names,
    sizes_of,
)
from pipeline_broker.state.groups.share.assignor import Assignment
from pipeline_broker.state.groups.share.messages import DescribedMember, DescribedShareGroup, Heartbeat

__all__ = ["ShareGroup", "ShareMember"]

JOINING_EPOCH = 0


@attrs.define(eq=False)
class ShareMember:
    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    assignment: Assignment = attrs.Factory(dict)

    @property
    def size_bytes(self) -> int:
        texts = sizes_of((self.member_id, self.rack_id, self.client_id, self.client_host))
        # Twice: a group exists in its pending and in its durable state.
        return 2 * (MEMBER_BYTES + texts + size_of_names(self.topics))

    def update(self, heartbeat: Heartbeat) -> bool:
        """Apply the metadata of a heartbeat; return whether the subscription has changed."""
        self.client_id, self.client_host = heartbeat.client_id, heartbeat.client_host
        if heartbeat.rack_id is not None:
            self.rack_id = heartbeat.rack_id
        if heartbeat.topics is None:
            return False
        topics = tuple(sorted(set(heartbeat.topics)))
        is_changed = topics != self.topics
        self.topics = topics
        return is_changed


@attrs.define(eq=False)
class ShareGroup:
    """A group in its pending state; `shown` describes its durable state.

    Attributes:
        epoch: increases with every change that needs a new assignment.
        metadata_hash: hash of the subscribed topics at `epoch`.
        assignment_epoch: the epoch for which `target` was computed.
        assigned_ms: the time at which `target` was computed.
        target: target assignment by member id.
        initialized: topic name, and partitions with a state in the share coordinator, by topic id; changed only by
            `begin`, `forget` and `restore`, which count its memory.
        is_deleted: a deletion of the group has begun.
        target_bytes: the part of `memory` that `target` takes.
    """

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assigned_ms: int = -(2**62)  # so that the first assignment does not wait for the interval
    members: dict[str, ShareMember] = attrs.Factory(dict)
    target: dict[str, Assignment] = attrs.Factory(dict)
    initialized: dict[bytes, tuple[str, frozenset[int]]] = attrs.Factory(dict)
    is_deleted: bool = False
    shown: DescribedShareGroup | None = None
    memory: HeldBytes = attrs.Factory(HeldBytes)
    target_bytes: int = 0

    def count_target(self) -> None:
        """Update the memory of `target`; call it after each change of `target`."""
        partitions = sum(len(each) for assignment in self.target.values() for each in assignment.values())
        self.memory.add(2 * ENTRY_BYTES * partitions - self.target_bytes)
        self.target_bytes = 2 * ENTRY_BYTES * partitions

    def begin(self, topic_id: bytes, name: str, partitions: Collection[int]) -> None:
        _, known = self.initialized.get(topic_id, (name, frozenset[int]()))
        now_known = known.union(partitions)
        self.initialized[topic_id] = name, now_known
        self.memory.add(SHARE_STATE_BYTES * (len(now_known) - len(known)))

    def forget(self, topic_id: bytes) -> None:
        """Remove a topic, after the share coordinator deleted its states."""
        _, known = self.initialized.pop(topic_id)
        self.memory.add(-SHARE_STATE_BYTES * len(known))

    def restore(self, initialized: Mapping[bytes, tuple[str, frozenset[int]]]) -> None:
        for topic_id in list(self.initialized):
            self.forget(topic_id)
        for topic_id, (name, partitions) in initialized.items():
            self.begin(topic_id, name, partitions)

    @property
    def group_type(self) -> GroupType:
        return GroupType.SHARE

    @property
    def state_name(self) -> str:
        return "Empty" if self.shown is None else self.shown.state

    @property
    def protocol_type_name(self) -> str:
        return "share"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_deletable_unasked(self) -> bool:  # a share group has no offsets that could expire
        return False

    @property
    def is_joining_long(self) -> bool:
        # A join recomputes the assignment of all members.
        return len(self.members) > MEMBERS_AT_ONCE_MAX

    def commit_error(self, request: CommitRequest) -> ErrorCode:
        del request
        return ErrorCode.GROUP_ID_NOT_FOUND

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        del member_id, member_epoch
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def delete_offsets_error(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def offset_age(self) -> OffsetAge | None:
        return None

    def described(self) -> DescribedShareGroup:
        return DescribedShareGroup(
            group_id=self.group_id,
            state="Stable" if self.members else "Empty",
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            members=tuple(
                DescribedMember(
                    member.member_id,
                    member.rack_id,
                    member.epoch,
                    member.client_id,
                    member.client_host,
                    member.topics,
                    member.assignment,
                )
                for member in self.members.values()
            ),
            topic_names={topic_id: name for topic_id, (name, _) in self.initialized.items()},
            initialized={topic_id: partitions for topic_id, (_, partitions) in self.initialized.items()},
        )
