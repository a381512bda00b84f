"""Groups of an embedded broker: descriptions, offsets, lag, deletion, and the expiry of members."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.group_views import (
    GroupView,
    MemberView,
    OffsetView,
    committed_offsets,
    find_group,
    group_offsets,
    list_groups,
    offset_order,
)
from pipeline_broker.embedded.arguments import checked_name
from pipeline_broker.embedded.brokers import Brokers
from pipeline_broker.embedded.calls import ask
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError
from pipeline_broker.embedded.life import Running
from pipeline_broker.embedded.shown import Group, Member

__all__ = ["delete_groups", "describe_group", "describe_groups", "expire_member", "lags", "offset_views", "offsets"]

LEAVE_EPOCH = -1  # KIP-848: the epoch of a heartbeat that leaves the group


def describe_groups(brokers: Brokers) -> list[Group]:
    brokers.check_coordinators("groups()")
    found = [
        _group(*each)
        for running in brokers.all_running
        for view in list_groups(running.broker)
        if (each := find_group(running.broker, view.group_id)) is not None
    ]
    return sorted(found, key=lambda group: group.group_id)


def describe_group(asked: str, brokers: Brokers, group_id: str) -> Group | None:
    coordinator = brokers.coordinator(asked, group_id)
    found = None if coordinator is None else find_group(coordinator.running.broker, group_id)
    return None if found is None else _group(*found)


def _group(view: GroupView, members: Iterable[MemberView]) -> Group:
    return Group(view.group_id, view.group_type.value, view.state, tuple(map(_member, members)))


def _member(view: MemberView) -> Member:
    assigned = frozenset((topic, number) for topic, numbers in (view.assignment or {}).items() for number in numbers)
    return Member(view.member_id, view.client_id, view.instance_id, view.client_host.lstrip("/"), assigned)


def offset_views(asked: str, brokers: Brokers, group_id: str) -> list[OffsetView]:
    coordinator = brokers.coordinator(asked, group_id)
    if coordinator is None:
        return []
    end_of = functools.partial(brokers.end_of, asked)
    return sorted(group_offsets(coordinator.running.broker, group_id, end_of=end_of), key=offset_order)


def offsets(asked: str, brokers: Brokers, group_id: str) -> dict[tuple[str, int], int]:
    coordinator = brokers.coordinator(asked, group_id)
    if coordinator is None:
        return {}
    # The ends are not needed, so partitions of a stopped broker count, too.
    views = committed_offsets(coordinator.running.broker, group_id, end_of=lambda _topic, _partition: None)
    found = sorted(views, key=offset_order)
    return {(view.topic, view.partition): view.committed for view in found if view.committed is not None}


def lags(asked: str, brokers: Brokers, group_id: str) -> dict[tuple[str, int], int | None]:
    views = offset_views(asked, brokers, group_id)
    return {(view.topic, view.partition): view.lag for view in views if view.end is not None}


async def expire_member(brokers: Brokers, group_id: str, member_id: str | None, now_ms: int) -> str:
    """Remove a member as after its session timeout, and return its id.

    Raises:
        EmbeddedBrokerError: the member does not exist, or `member_id` is None and the group has not exactly one.
        RefusedError: the broker refuses to remove the member.
    """
    checked_name("expire_member: group", group_id)
    if member_id is not None:
        checked_name("expire_member: member_id", member_id)
    asked = f"expire_member({group_id!r})"
    coordinator, group = brokers.coordinator(asked, group_id), describe_group(asked, brokers, group_id)
    members = {} if group is None else {each.member_id: each for each in group.members}
    if member_id is None and len(members) == 1:
        (member_id,) = members
    if group is None or coordinator is None or member_id not in members:
        if not members:
            raise EmbeddedBrokerError(
                f"expire_member: the group {group_id!r} {'does not exist' if group is None else 'has no members'}"
            )
        problem = f"has {len(members)} members; name one" if member_id is None else f"has no member {member_id!r}"
        raise EmbeddedBrokerError(f"expire_member: the group {group_id!r} {problem}; members: {', '.join(members)}")
    error = await _leave(coordinator.running, group, members[member_id], now_ms)
    if error:
        raise RefusedError(f"expire_member({group_id!r}, {member_id!r})", error)
    return member_id


async def delete_groups(running: Running, group_ids: Collection[str], now_ms: int) -> None:
    """Delete groups with their committed offsets, except those with members; errors of single groups are ignored."""
    from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest  # noqa: PLC0415 - not imported at startup

    if group_ids:
        await ask(running, DeleteGroupsRequest(groups_names=list(group_ids)), now_ms)


async def _leave(running: Running, group: Group, member: Member, now_ms: int) -> int:
    # A consumer group can also have members of the classic protocol (KIP-848), which leave by LeaveGroup.
    if group.group_type != "classic":
        error = await _leave_by_heartbeat(running, group, member, now_ms)
        if not error:
            return ErrorCode.NONE
    from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest  # noqa: PLC0415 - not imported at startup

    identity = LeaveGroupRequest.MemberIdentity(
        member_id=member.member_id, group_instance_id=member.instance_id, reason="expired"
    )
    answer = await ask(running, LeaveGroupRequest(group_id=group.group_id, member_id="", members=[identity]), now_ms)
    codes: Mapping[str, int] = {each.member_id: each.error_code for each in answer.members}
    return int(answer.error_code or codes.get(member.member_id, ErrorCode.NONE))


async def _leave_by_heartbeat(running: Running, group: Group, member: Member, now_ms: int) -> int:
    message: Any
    if group.group_type == "share":
        from pipeline_broker.wire.messages.share.share_group_heartbeat import (  # noqa: PLC0415 - not imported at startup
            ShareGroupHeartbeatRequest,
        )

        message = ShareGroupHeartbeatRequest(
            group_id=group.group_id, member_id=member.member_id, member_epoch=LEAVE_EPOCH
        )
    elif group.group_type == "streams":
        from pipeline_broker.wire.messages.groups.streams_group_heartbeat import (  # noqa: PLC0415 - not imported at startup
            StreamsGroupHeartbeatRequest,
        )

        message = StreamsGroupHeartbeatRequest(
            group_id=group.group_id,
            member_id=member.member_id,
            member_epoch=LEAVE_EPOCH,
            instance_id=member.instance_id,
        )
    else:
        from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import (  # noqa: PLC0415 - not imported at startup
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
