"""A group whose members reconcile with a target assignment: its epochs, members and target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Self

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.group import MEMBERS_AT_ONCE_MAX, OffsetAge
from pipeline_broker.state.groups.memory import ENTRY_BYTES, HeldBytes
from pipeline_broker.state.groups.modern.member import LEAVING_STATIC_EPOCH, REMOVED, Assigned, CurrentAssignment
from pipeline_broker.state.groups.modern.updates import Subjects, TargetEpoch, Update

__all__ = ["ModernGroup"]


@attrs.define(eq=False)
class ModernGroup:
    """The part of a group that its kinds share.

    Attributes:
        MEMBER: the class of members.
        epoch: the group epoch; 0 until the group is complete for the first time.
        metadata_hash: hash of the subscribed topics when `epoch` was last bumped.
        assignment_epoch: the group epoch for which `target` was computed.
        assigned_ms: the time at which `target` was computed.
        target: target assignment by member id.
        static_members: member ids by instance id.
        topics_version: version of the topics when `metadata_hash` was last compared with them; -1 if never.
        is_deleted: see Group. Always False, because the registry forgets a group as soon as its deletion begins.
    """

    MEMBER: ClassVar[type[Any]]
    SUBJECTS: ClassVar[Subjects]
    is_deleted: ClassVar[bool] = False

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assigned_ms: int = 0
    target: dict[str, Assigned] = attrs.Factory(dict)
    members: dict[str, Any] = attrs.Factory(dict)
    static_members: dict[str, str] = attrs.Factory(dict)
    topics_version: int = -1
    memory: HeldBytes = attrs.Factory(HeldBytes)

    def apply(self, update: Update) -> None:
        self._APPLY[update.subject](self, update.name, update.value)

    def copy(self) -> Self:
        other = type(self)(group_id=self.group_id)
        other.memory.add(self.memory.count)  # not part of a total: the group is counted only once
        for field in attrs.fields(type(self)):
            value = getattr(self, field.name)
            if field.name != "memory":
                setattr(other, field.name, type(value)(value) if isinstance(value, dict) else value)
        return other

    def apply_target_epoch(self, _: str, value: TargetEpoch | None) -> None:
        self.assignment_epoch, self.assigned_ms = (0, 0) if value is None else (value.epoch, value.timestamp_ms)

    def apply_target(self, member_id: str, value: Assigned | None) -> None:
        self.memory.add(_size_of(value or {}) - _size_of(self.target.get(member_id, {})))
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = value

    def apply_member(self, member_id: str, value: Any) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self.count(before, -1)
        if value is None:
            if before is not None:
                self._release(before)
                del self.members[member_id]
            return
        member = self.MEMBER(member_id, value) if before is None else attrs.evolve(before, metadata=value)
        self.members[member_id] = member
        self.count(member, 1)

    def apply_current(self, member_id: str, value: CurrentAssignment | None) -> None:
        before = self.members.get(member_id)
        if before is None:
            if value is None:
                return
            # During replay: compaction may have moved the record of the member after this one.
            before = self.MEMBER(member_id)
            self.count(before, 1)
        self._release(before)
        member = attrs.evolve(before, current=REMOVED if value is None else value)
        self.members[member_id] = member
        self.memory.add(_size_of(member.current.assigned) + _size_of(member.current.revoking))
        self.own(member)

    def _release(self, member: Any) -> None:
        self.memory.add(-_size_of(member.current.assigned) - _size_of(member.current.revoking))
        self.disown(member)

    def own(self, member: Any) -> None:
        """Note what a member owns: its assignment, and the part of it that it must revoke."""
        raise NotImplementedError

    def disown(self, member: Any) -> None:
        raise NotImplementedError

    def count(self, member: Any, change: int) -> None:
        """Add a member to the totals of the group (`change` is 1), or remove it (-1)."""
        metadata = member.metadata
        self.memory.add(change * metadata.size_bytes)
        if metadata.instance_id is not None:
            if change > 0:
                self.static_members[metadata.instance_id] = member.member_id
            elif self.static_members.get(metadata.instance_id) == member.member_id:
                del self.static_members[metadata.instance_id]

    def static_member(self, instance_id: str) -> Any:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_replaceable(self, holder: Any) -> bool:
        """Return whether a member that joins may take over the instance id of a static member."""
        epoch: int = holder.current.member_epoch
        return epoch == LEAVING_STATIC_EPOCH

    def is_classic(self, member: Any) -> bool:
        del member
        return False

    def target_of(self, member_id: str) -> Assigned:
        return self.target.get(member_id, {})

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
        is_classic = self.is_classic(member)
        if not is_classic and not request.missing_group_named and request.producer_id is None:
            # OffsetCommit before version 9 has no member epoch.
            return ErrorCode.UNSUPPORTED_VERSION
        current = member.current
        is_behind = 0 <= epoch < current.member_epoch
        if epoch == current.member_epoch or (
            is_behind and all(self._is_owned_since(current, each, epoch) for each in request.partitions)
        ):
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def _is_owned_since(self, current: CurrentAssignment, partition: PartitionCommit, epoch: int) -> bool:
        key = self.key_of(partition)
        for owned in (current.assigned, current.revoking):
            assigned_epoch: int | None = owned.get(key, {}).get(partition.partition)
            if assigned_epoch is not None:
                return assigned_epoch <= epoch
        return False

    def key_of(self, partition: PartitionCommit) -> Any:
        """Return the key in assignments of what a partition belongs to; None if nothing has it."""
        raise NotImplementedError

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch == member.current.member_epoch:
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if self.is_classic(member) else ErrorCode.STALE_MEMBER_EPOCH

    def delete_offsets_error(self) -> ErrorCode:
        return ErrorCode.NONE

    def offset_age(self) -> OffsetAge | None:
        return lambda committed: committed.commit_timestamp_ms

    _APPLY: ClassVar[Mapping[Any, Callable[[Any, str, Any], None]]]


def _size_of(partitions: Mapping[Any, Collection[int]]) -> int:
    return 2 * ENTRY_BYTES * sum(map(len, partitions.values()))
