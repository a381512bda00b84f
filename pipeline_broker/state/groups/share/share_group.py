"""One share group: its members, what they subscribe to, and what they shall read.

Rules of this file: data and questions; what changes it is in `coordinator.py`. Epochs are those of KIP-932: the group's
rises when members or topics change, the assignment's follows it, and a member's is the assignment that it was given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

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
from pipeline_broker.wire.error import ErrorCode

__all__ = ["ShareGroup", "ShareMember"]

JOINING_EPOCH = 0


@attrs.define(eq=False)
class ShareMember:
    """A member; `epoch` and `assignment` are what it was told last."""

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
        """What it holds, once as it will be and once as it is shown; but for what it reads."""
        texts = sizes_of((self.member_id, self.rack_id, self.client_id, self.client_host))
        return 2 * (MEMBER_BYTES + texts + size_of_names(self.topics))

    def update(self, heartbeat: Heartbeat) -> bool:
        """Take over what the member says of itself; whether it reads other topics now."""
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
    """A group as it will be when all that is on its way is durable; `shown` is it as it is durable.

    Attributes:
        epoch: rises with every change that needs a new assignment.
        metadata_hash: of the topics that the epoch was made for.
        assignment_epoch: the epoch that `target` was made for.
        assigned_ms: when that was.
        members: by their ids.
        target: what each member shall read.
        initialized: topic id: name, and the partitions whose state the share coordinator keeps; changed by `begin`,
            `forget` and `restore`.
        is_deleted: it is on its way to be deleted.
        shown: what clients are shown.
        target_bytes: what `target` holds; it is counted in `memory`.
    """

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assigned_ms: int = -(2**62)
    members: dict[str, ShareMember] = attrs.Factory(dict)
    target: dict[str, Assignment] = attrs.Factory(dict)
    initialized: dict[bytes, tuple[str, frozenset[int]]] = attrs.Factory(dict)
    is_deleted: bool = False
    shown: DescribedShareGroup | None = None
    memory: HeldBytes = attrs.Factory(HeldBytes)
    target_bytes: int = 0

    def count_target(self) -> None:
        """Count what `target` holds now."""
        partitions = sum(len(each) for assignment in self.target.values() for each in assignment.values())
        self.memory.add(2 * ENTRY_BYTES * partitions - self.target_bytes)
        self.target_bytes = 2 * ENTRY_BYTES * partitions

    def begin(self, topic_id: bytes, name: str, partitions: Collection[int]) -> None:
        """Note partitions of a topic whose state is kept from now on."""
        _, known = self.initialized.get(topic_id, (name, frozenset[int]()))
        now_known = known.union(partitions)
        self.initialized[topic_id] = name, now_known
        self.memory.add(SHARE_STATE_BYTES * (len(now_known) - len(known)))

    def forget(self, topic_id: bytes) -> None:
        """Note a topic whose state is not kept any more."""
        _, known = self.initialized.pop(topic_id)
        self.memory.add(-SHARE_STATE_BYTES * len(known))

    def restore(self, initialized: Mapping[bytes, tuple[str, frozenset[int]]]) -> None:
        """Note what a record says of all topics."""
        for topic_id in list(self.initialized):
            self.forget(topic_id)
        for topic_id, (name, partitions) in initialized.items():
            self.begin(topic_id, name, partitions)

    @property
    def group_type(self) -> GroupType:
        return GroupType.SHARE

    @property
    def state_name(self) -> str:
        """See Group; as it is durable."""
        return "Empty" if self.shown is None else self.shown.state

    @property
    def protocol_type_name(self) -> str:
        return "share"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_deletable_unasked(self) -> bool:
        """See Group; it has no offsets that could expire."""
        return False

    @property
    def is_joining_long(self) -> bool:
        """See Group: partitions are assigned anew to all."""
        return len(self.members) > MEMBERS_AT_ONCE_MAX

    def commit_error(self, request: CommitRequest) -> ErrorCode:
        """Share groups commit no offsets."""
        del request
        return ErrorCode.GROUP_ID_NOT_FOUND

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Nor do they have any."""
        del member_id, member_epoch
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def delete_offsets_error(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def offset_age(self) -> OffsetAge | None:
        return None

    def described(self) -> DescribedShareGroup:
        """The group as it is now."""
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
