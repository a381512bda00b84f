"""JoinGroup: checks, member ids, and the decision to rebalance.

| state | new member | existing member |
|---|---|---|
| Empty | starts the first rebalance | UNKNOWN_MEMBER_ID |
| PreparingRebalance | parked | parked |
| CompletingRebalance | rebalance | same metadata: current generation again; else rebalance |
| Stable | rebalance | leader or changed metadata: rebalance; else current generation again |
| Dead | COORDINATOR_NOT_AVAILABLE | COORDINATOR_NOT_AVAILABLE |
"""

from __future__ import annotations

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.classic import rebalancing
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState, Member
from pipeline_broker.state.groups.classic.messages import JoinRequest, JoinResult, MemberProtocol, SyncResult
from pipeline_broker.state.groups.classic.turn import Turn
from pipeline_broker.state.groups.memory import GroupMemory

__all__ = ["StaticMemberStored", "has_memory", "join", "static_member_not_stored", "static_member_stored"]

# A client id may be as long as a Kafka string (32,767 bytes). The member id made from it must fit into a string too.
MEMBER_ID_PREFIX_MAX = 1_000
# Kafka's GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS, which no property changes.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


@attrs.frozen(eq=False)
class StaticMemberStored:
    """The new id of a static member that returns to a stable group, applied once its record is durable."""

    group: ClassicGroup
    old_id: str
    new_id: str
    old_leader: str
    old_protocols: tuple[MemberProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    token: object
    assignment_skippable: bool


def join(turn: Turn, group: ClassicGroup, request: JoinRequest, token: object) -> None:
    error = _refusal(turn, group, request)
    if error is not ErrorCode.NONE:
        member_id = "" if error is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
        turn.answer(token, JoinResult(error=error, member_id=member_id))
    elif request.member_id == "":
        _join_new(turn, group, request, token)
    elif request.member_id in group.pending_joins:
        _add(turn, group, request, request.member_id, token)
    else:
        _join_member(turn, group, request, token)


def _refusal(turn: Turn, group: ClassicGroup, request: JoinRequest) -> ErrorCode:
    if not _has_room(turn, group, request.member_id):
        # A pending id of a refused client must not delay the rebalance.
        turn.remove(group, request.member_id)
        rebalancing.maybe_complete_join(turn, group)
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not group.supports(request.protocol_type, request.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _member_of(request: JoinRequest, member_id: str) -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        is_new=True,
    )


def has_memory(memory: GroupMemory, group: ClassicGroup | None, request: JoinRequest) -> bool:
    """Return whether the memory bound allows the member's metadata; otherwise count a refusal.

    Metadata that has not grown is always allowed.
    """
    member_id = request.member_id
    if group is not None and request.group_instance_id is not None:
        member_id = group.static_members.get(request.group_instance_id, member_id)
    member = None if group is None else group.members.get(member_id)
    held = 0 if member is None else member.size_bytes - len(member.assignment)
    return memory.admits(held, _member_of(request, member_id).size_bytes)


def _has_room(turn: Turn, group: ClassicGroup, member_id: str) -> bool:
    """Return whether the group's size limit allows this join.

    During the join phase only members that have joined count. So if the limit was lowered, the last ones to rejoin are
    dropped.
    """
    if group.state in {GroupState.EMPTY, GroupState.DEAD}:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in group.parked_joins or len(group.parked_joins) < turn.config.group_max_size
    return member_id in group.members or len(group.members) < turn.config.group_max_size


def _join_new(turn: Turn, group: ClassicGroup, request: JoinRequest, token: object) -> None:
    instance_id = request.group_instance_id
    prefix = request.client_id if instance_id is None else instance_id
    member_id = f"{prefix[:MEMBER_ID_PREFIX_MAX]}-{request.fresh_id}"
    if instance_id is not None:
        old_id = group.static_members.get(instance_id)
        if old_id is None:
            _add(turn, group, request, member_id, token)
        else:
            _replace_static(turn, group, request, (old_id, member_id), token)
    elif request.member_id_required:
        # KIP-394: the client joins again with this id. If it never does, no member remains.
        group.expect(member_id)
        turn.start_session(group, member_id, request.session_timeout_ms)
        turn.answer(token, JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    else:
        _add(turn, group, request, member_id, token)


def _add(turn: Turn, group: ClassicGroup, request: JoinRequest, member_id: str, token: object) -> None:
    if not group.members:
        group.protocol_type = request.protocol_type
    if group.is_initial:
        group.grew = True
    member = _member_of(request, member_id)
    group.add(member)
    turn.park_join(group, member, token)
    # The broker cannot tell whether the client is alive: it has no member id to send heartbeats with, and its
    # connection is not read while the join is parked. So the join of a new member times out; a live client retries.
    turn.start_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalancing.prepare_or_complete(turn, group)


def _join_member(turn: Turn, group: ClassicGroup, request: JoinRequest, token: object) -> None:
    error = group.member_error(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        turn.answer(token, JoinResult(error=error, member_id=request.member_id))
        return
    member = group.members[request.member_id]
    unchanged = member.protocols == request.protocols
    # A leader rejoins to start a rebalance, for example after partitions were added to a topic.
    leads = group.state is GroupState.STABLE and group.leader == request.member_id
    if group.state is not GroupState.PREPARING_REBALANCE and unchanged and not leads:
        # The client retries a lost response: repeat the current generation instead of starting a rebalance.
        turn.answer(token, rebalancing.generation_result(group, request.member_id))
        return
    _update(group, member, request)
    turn.park_join(group, member, token)
    rebalancing.prepare_or_complete(turn, group)


def _update(group: ClassicGroup, member: Member, request: JoinRequest) -> None:
    group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)


def _replace_static(
    turn: Turn,
    group: ClassicGroup,
    request: JoinRequest,
    ids: tuple[str, str],
    token: object,
) -> None:
    old_id, new_id = ids
    fenced = ErrorCode.FENCED_INSTANCE_ID
    turn.answer_join(group, old_id, JoinResult(error=fenced, member_id=old_id))
    turn.answer_sync(group, old_id, SyncResult(error=fenced))
    turn.end_session(group, old_id)
    old_leader = group.leader
    assert old_leader is not None, "it has members"
    member = group.replace_static(old_id, new_id)
    change = StaticMemberStored(
        group,
        old_id,
        new_id,
        old_leader,
        member.protocols,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        token,
        request.assignment_skippable,
    )
    _update(group, member, request)
    turn.park_join(group, member, token)
    if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol_name:
        rebalancing.prepare_or_complete(turn, group)
    else:
        assignments = {other.member_id: other.assignment for other in group.members.values()}
        turn.store(group, assignments, change)


def _still_waits(change: StaticMemberStored) -> bool:
    """Return whether the join still waits for this record, and not for a rebalance that began later."""
    group = change.group
    return group.parked_joins.get(change.new_id) is change.token and group.state is GroupState.STABLE


def static_member_stored(turn: Turn, change: StaticMemberStored) -> None:
    """Admit a static member whose new id is durable, without a rebalance."""
    if not _still_waits(change):
        return
    group = change.group
    result = rebalancing.generation_result(group, change.new_id)
    if change.assignment_skippable:
        result = result._replace(skip_assignment=group.leader == change.new_id)
    else:
        # A client before version 9 that learns that it leads would assign again. So it receives its old id as leader.
        result = result._replace(leader=change.old_leader, members=())
    turn.answer_join(group, change.new_id, result)
    turn.refresh_session(group, group.members[change.new_id])


def static_member_not_stored(turn: Turn, change: StaticMemberStored, error: ErrorCode) -> None:
    """Restore the old id of a static member whose new id could not be stored."""
    if not _still_waits(change):
        return
    group = change.group
    turn.answer_join(group, change.new_id, JoinResult(error=error))
    member = group.replace_static(change.new_id, change.old_id)
    group.update(member, change.old_protocols, change.old_rebalance_timeout_ms, change.old_session_timeout_ms)
    turn.refresh_session(group, member)
