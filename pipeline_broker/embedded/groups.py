"""The groups of an embedded broker: shown as they are, and members sent away.

Rules of this file: on the event loop; what Kafka's tools can ask is asked as they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipeline_broker.embedded.calls import ask
from pipeline_broker.embedded.errors import EmbeddedBrokerError, RefusedError
from pipeline_broker.embedded.shown import Group, Member
from pipeline_broker.wire.error import ErrorCode

if TYPE_CHECKING:
    from pipeline_broker.embedded.life import Running

__all__ = ["committed_offsets", "describe_groups", "expire_member", "lags"]

LEAVE_EPOCH = -1
"""The epoch of a heartbeat by which a member of KIP-848 leaves."""


async def describe_groups(running: Running, now_ms: int, wanted: str | None = None) -> list[Group]:
    """All groups by name, or the one that is wanted, if it is there."""
    from pipeline_broker.wire.messages.list_groups import ListGroupsRequest  # noqa: PLC0415 - when it is asked for

    listed = await ask(running, ListGroupsRequest(states_filter=[], types_filter=[]), now_ms)
    names: dict[str, list[str]] = {}
    for each in listed.groups:
        if wanted in (None, each.group_id):
            names.setdefault(each.group_type.lower(), []).append(each.group_id)
    groups = []
    for group_type, group_ids in names.items():
        answer = await ask(running, _describe_request(group_type, group_ids), now_ms)
        groups += [_group(group_type, each) for each in answer.groups if each.error_code == ErrorCode.NONE]
    return sorted(groups, key=lambda group: group.group_id)


def _describe_request(group_type: str, group_ids: list[str]) -> Any:
    if group_type == "classic":
        from pipeline_broker.wire.messages.describe_groups import DescribeGroupsRequest  # noqa: PLC0415 - see above

        return DescribeGroupsRequest(groups=group_ids, include_authorized_operations=False)
    if group_type == "consumer":
        from pipeline_broker.wire.messages.consumer_group_describe import (  # noqa: PLC0415 - see above
            ConsumerGroupDescribeRequest,
        )

        return ConsumerGroupDescribeRequest(group_ids=group_ids, include_authorized_operations=False)
    from pipeline_broker.wire.messages.share_group_describe import ShareGroupDescribeRequest  # noqa: PLC0415 - see above

    return ShareGroupDescribeRequest(group_ids=group_ids, include_authorized_operations=False)


def _group(group_type: str, described: Any) -> Group:
    if group_type == "classic":
        members = tuple(_classic_member(each) for each in described.members)
    else:
        members = tuple(_member(each) for each in described.members)
    return Group(described.group_id, group_type, described.group_state, members)


def _classic_member(described: Any) -> Member:
    from pipeline_broker.state.consumer_groups.embedded import (  # noqa: PLC0415 - see above
        MalformedError,
        read_assignment,
    )

    try:
        named: Iterable[Any] = read_assignment(described.member_assignment).assigned_partitions
    except MalformedError:  # a group of other things than consumers, such as Kafka Connect's workers
        named = ()
    return Member(
        described.member_id,
        described.client_id,
        described.group_instance_id,
        described.client_host.lstrip("/"),
        {each.topic: tuple(sorted(each.partitions)) for each in named},
    )


def _member(described: Any) -> Member:
    return Member(
        described.member_id,
        described.client_id,
        getattr(described, "instance_id", None),
        described.client_host.lstrip("/"),
        {each.topic_name: tuple(sorted(each.partitions)) for each in described.assignment.topic_partitions},
    )


def committed_offsets(running: Running, group_id: str) -> dict[tuple[str, int], int]:
    """What a group has committed, by topic and partition; nothing of a group that there is not."""
    fetched = running.broker.groups.coordinator.fetch(group_id)
    return {(each.topic, each.partition): each.committed.offset for each in fetched}


async def lags(running: Running, group_id: str, now_ms: int) -> dict[tuple[str, int], int]:
    """How many offsets a group is behind, in the partitions that it has committed or is assigned."""
    committed = committed_offsets(running, group_id)
    assigned = {place for group in await describe_groups(running, now_ms, group_id) for place in group.assigned}
    found: dict[tuple[str, int], int] = {}
    for topic, partition in sorted(assigned | committed.keys()):
        log = running.broker.logs.find(topic, partition)
        if log is not None:
            offset = max(committed.get((topic, partition), 0), log.log_start_offset)
            found[topic, partition] = max(0, log.high_watermark - offset)
    return found


async def expire_member(running: Running, group_id: str, member_id: str | None, now_ms: int) -> str:
    """Do what happens when a member is silent for longer than its session timeout; returns the member's id.

    Raises:
        EmbeddedBrokerError: it is not clear who is meant, or there is nobody.
    """
    found = {group.group_id: group for group in await describe_groups(running, now_ms, group_id)}
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


async def _leave(running: Running, group: Group, member: Member, now_ms: int) -> int:
    """Let a member go; Kafka's error."""
    if group.group_type != "classic":
        error = await _leave_by_heartbeat(running, group, member, now_ms)
        if not error:
            return ErrorCode.NONE
    from pipeline_broker.wire.messages.leave_group import LeaveGroupRequest  # noqa: PLC0415 - see above

    identity = LeaveGroupRequest.MemberIdentity(
        member_id=member.member_id, group_instance_id=member.instance_id, reason="expired"
    )
    answer = await ask(running, LeaveGroupRequest(group_id=group.group_id, member_id="", members=[identity]), now_ms)
    codes: Mapping[str, int] = {each.member_id: each.error_code for each in answer.members}
    return int(answer.error_code or codes.get(member.member_id, ErrorCode.NONE))


async def _leave_by_heartbeat(running: Running, group: Group, member: Member, now_ms: int) -> int:
    message: Any
    if group.group_type == "share":
        from pipeline_broker.wire.messages.share_group_heartbeat import (  # noqa: PLC0415 - see above
            ShareGroupHeartbeatRequest,
        )

        message = ShareGroupHeartbeatRequest(
            group_id=group.group_id, member_id=member.member_id, member_epoch=LEAVE_EPOCH
        )
    else:
        from pipeline_broker.wire.messages.consumer_group_heartbeat import (  # noqa: PLC0415 - see above
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
