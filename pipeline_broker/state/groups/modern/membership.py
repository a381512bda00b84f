"""Membership checks of heartbeats: space for a member, member epochs, instance ids.

| member epoch | meaning |
|---|---|
| 0 | the member joins, or joins again after it was fenced |
| > 0 | the member stays |
| -1 | the member leaves |
| -2 | a static member leaves temporarily |
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.modern.group_error import GroupError
from pipeline_broker.state.groups.modern.member import LEAVING_EPOCH, LEAVING_STATIC_EPOCH, Assigned, Owned
from pipeline_broker.state.groups.modern.step import ModernStep, TimerKind

__all__ = [
    "MemberRequest",
    "assigned_of",
    "check_full",
    "check_leaving",
    "check_memory",
    "check_not_empty",
    "chosen",
    "find_member",
    "invalid",
    "is_leaving",
    "leave_temporarily",
    "leaving_member",
]

Field = TypeVar("Field")
Step = ModernStep[Any, Any]


class MemberRequest(Protocol):
    """The part of a heartbeat that identifies the member, and its assignment; None if the request omits it."""

    @property
    def group_id(self) -> str: ...
    @property
    def member_id(self) -> str: ...
    @property
    def member_epoch(self) -> int: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def owned(self) -> Assigned | None: ...


def check_not_empty(text: str | None, message: str) -> None:
    if text is not None and not text.strip():
        raise invalid(message)


def invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message)


def chosen(new: Field | None, old: Field) -> Field:
    return old if new is None else new


def is_leaving(request: MemberRequest) -> bool:
    return request.member_epoch in {LEAVING_EPOCH, LEAVING_STATIC_EPOCH}


def check_leaving(request: MemberRequest) -> None:
    """Raise GroupError if a negative member epoch is unknown, or lacks the instance id that it needs."""
    if request.member_epoch == LEAVING_STATIC_EPOCH and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    if request.member_epoch < LEAVING_STATIC_EPOCH:
        raise invalid("MemberEpoch is invalid.")


def check_full(step: Step, member_id: str, size_max: int) -> None:
    if len(step.group.members) >= size_max and member_id not in step.group.members:
        raise GroupError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The {_kind(step)} group has reached its maximum capacity of {size_max} members.",
        )


def check_memory(step: Step, old: Any, new: Any) -> None:
    """Raise GroupError if the memory bound does not allow the metadata `new` of a member, which was `old` or is new."""
    if not step.memory.admits(0 if old is None else old.metadata.size_bytes, new.size_bytes):
        raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, step.memory.refusal)


def find_member(step: Step, request: MemberRequest, member_id: str) -> Any:
    """Return the member that sent a heartbeat, or the static member that it replaces; None for a new member.

    Raises:
        GroupError: the member is unknown or fenced, its epoch does not match, or another member owns its instance id.
    """
    group, joins = step.group, request.member_epoch == 0
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is not None:
            _check_epoch(step, member, request)
        elif not joins:
            raise _unknown(step, member_id)
        return member
    holder = group.static_member(request.instance_id)
    if joins:
        if holder is not None and not group.is_replaceable(holder):
            raise GroupError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the"
                f" instance id is owned by {holder.member_id} member.",
            )
        return holder
    _check_epoch(step, holder := _static(holder, request.instance_id, member_id), request)
    return holder


def _static(holder: Any, instance_id: str, member_id: str) -> Any:
    if holder is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise GroupError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )
    return holder


def _unknown(step: Step, member_id: str) -> GroupError:
    return GroupError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {step.group.group_id}."
    )


def _check_epoch(step: Step, member: Any, request: MemberRequest) -> None:
    epoch, current = request.member_epoch, member.current
    if epoch in {0, current.member_epoch}:
        return
    is_last = epoch == current.previous_epoch and _is_within(request.owned, current.assigned)
    if epoch < current.member_epoch and is_last:
        return  # the response with the new epoch was lost
    compared = "greater" if epoch > current.member_epoch else "smaller"
    raise GroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {_kind(step)} group member has a {compared} member epoch ({epoch}) than the one known by the group"
        f" coordinator ({current.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_within(owned: Assigned | None, assigned: Owned) -> bool:
    if owned is None:
        return False
    return all(key in assigned and partitions <= assigned[key].keys() for key, partitions in owned.items())


def _kind(step: Step) -> str:
    kind: str = step.group.group_type.value
    return kind


def assigned_of(owned: Owned) -> dict[Any, frozenset[int]]:
    return {key: frozenset(epochs) for key, epochs in owned.items()}


def leaving_member(step: Step, request: MemberRequest) -> Any:
    """Return the member that leaves.

    Raises:
        GroupError: the member is unknown or fenced.
    """
    group, member_id = step.group, request.member_id
    if request.instance_id is not None:
        return _static(group.static_member(request.instance_id), request.instance_id, member_id)
    member = group.members.get(member_id)
    if member is None:
        raise _unknown(step, member_id)
    return member


def leave_temporarily(step: Step, member: Any) -> None:
    """Mark a static member: its assignment stays, except the part that it must revoke.

    Assignment epochs become 0, as in Kafka: the member may return with any epoch and commit. Unknown epochs stay.
    """
    assigned = {
        key: {number: min(epoch, 0) for number, epoch in epochs.items()}
        for key, epochs in member.current.assigned.items()
    }
    left = attrs.evolve(member.current, member_epoch=LEAVING_STATIC_EPOCH, assigned=assigned, revoking={})
    step.emit(step.group.SUBJECTS.current, member.member_id, left)
    step.stop(TimerKind.REBALANCE, member.member_id)
