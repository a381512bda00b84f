"""The groups of an embedded broker: shown as they are, and members sent away.

Rules of this file: on the event loop; what Kafka's tools can ask is asked as they do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pipeline_broker.broker.group_views import (
    GroupView,
    MemberView,
    committed_offsets,
    find_group,
    group_offsets,
    list_groups,
    offset_order,
)
from pipeline_broker.embedded.calls import ask
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.shown import Group, Member
from pipeline_broker.wire.error import ErrorCode

__all__ = ["delete_groups", "describe_groups", "expire_member", "lags", "offsets"]

LEAVE_EPOCH = -1
"""The epoch of a heartbeat by which a member of KIP-848 leaves."""


def describe_groups(running: Running, wanted: str | None = None) -> list[Group]:
    """All groups by name, or the one that is wanted, if it is there."""
    broker = running.broker
    names = [group.group_id for group in list_groups(broker)] if wanted is None else [wanted]
    return [_group(*found) for name in names if (found := find_group(broker, name)) is not None]


def _group(view: GroupView, members: Iterable[MemberView]) -> Group:
    return Group(view.group_id, view.group_type.value, view.state, tuple(map(_member, members)))


def _member(view: MemberView) -> Member:
    return Member(view.member_id, view.client_id, view.instance_id, view.client_host.lstrip("/"), view.assignment or {})


def offsets(running: Running, group_id: str) -> dict[tuple[str, int], int]:
    """What a group has committed, by topic and partition; nothing for a group that is not there."""
    views = sorted(committed_offsets(running.broker, group_id), key=offset_order)
    return {(view.topic, view.partition): view.committed for view in views if view.committed is not None}


def lags(running: Running, group_id: str) -> dict[tuple[str, int], int | None]:
    """How far a group is behind in the partitions that it has committed or is assigned, and that are there."""
    views = sorted(group_offsets(running.broker, group_id), key=offset_order)
    return {(view.topic, view.partition): view.lag for view in views if view.end is not None}


async def expire_member(running: Running, group_id: str, member_id: str | None, now_ms: int) -> str:
    """Do what happens when a member is silent for longer than its session timeout; returns the member's id.

    Raises:
        EmbeddedBrokerError: it is not clear who is meant, or there is nobody.
    """
    found = {group.group_id: group for group in describe_groups(running, group_id)}
    members = {each.member_id: each for each in found[group_id].members} if found else {}
    if member_id is None and len(members) == 1:
        (member_id,) = members
    if member_id not in members:
        asked = "a member" if member_id is None else repr(member_id)
        there = ", ".join(members) or "none"
        raise EmbeddedBrokerError(f"expire_member: the group {group_id!r} needs {asked} to be named; members: {there}")
    error = await _leave(running, found[group_id], members[member_id], now_ms)
    if error:
        raise RefusedError(f"expire_member({group_id!r}, {member_id!r})", error)
    return member_id


async def delete_groups(running: Running, group_ids: Collection[str], now_ms: int) -> None:
    """Delete groups with what they committed; one that somebody joins meanwhile stays."""
    from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest  # noqa: PLC0415 - when it is asked for

    if group_ids:
        await ask(running, DeleteGroupsRequest(groups_names=list(group_ids)), now_ms)


async def _leave(running: Running, group: Group, member: Member, now_ms: int) -> int:
    """Let a member go; Kafka's error."""
    if group.group_type != "classic":
        error = await _leave_by_heartbeat(running, group, member, now_ms)
        if not error:
            return ErrorCode.NONE
    from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest  # noqa: PLC0415 - when it is asked for

    identity = LeaveGroupRequest.MemberIdentity(
        member_id=member.member_id, group_instance_id=member.instance_id, reason="expired"
    )
    answer = await ask(running, LeaveGroupRequest(group_id=group.group_id, member_id="", members=[identity]), now_ms)
    codes: Mapping[str, int] = {each.member_id: each.error_code for each in answer.members}
    return int(answer.error_code or codes.get(member.member_id, ErrorCode.NONE))


async def _leave_by_heartbeat(running: Running, group: Group, member: Member, now_ms: int) -> int:
    message: Any
    if group.group_type == "share":
        from pipeline_broker.wire.messages.share.share_group_heartbeat import (  # noqa: PLC0415 - when it is asked for
            ShareGroupHeartbeatRequest,
        )

        message = ShareGroupHeartbeatRequest(
            group_id=group.group_id, member_id=member.member_id, member_epoch=LEAVE_EPOCH
        )
    else:
        from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import (  # noqa: PLC0415 - when it is asked for
            ConsumerGroupHeartbeatRequest,
        )

        message = ConsumerGroupHeartbeatRequest(
            group_id=group.group_id,
            member_id=member.member_id,
            member_epoch=LEAVE_EPOCH,
            instance_id=member.instance_id,
        )
    answer = await ask(running, message, now_ms)
    return int(answer.error_code)
