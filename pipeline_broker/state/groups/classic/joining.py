"""JoinGroup: who is let in, under which id, and whether that starts a rebalance.

state        somebody new                 a member
Empty        first rebalance              25 UNKNOWN_MEMBER_ID
Preparing    parked                       parked
Completing   rebalance                    same metadata: current generation again; else rebalance
Stable       rebalance                    leader, or changed metadata: rebalance; else current generation again
Dead         15 COORDINATOR_NOT_AVAILABLE
"""

from __future__ import annotations

import attrs

from pipeline_broker.state.groups.classic import rebalancing
from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState, Member
from pipeline_broker.state.groups.classic.messages import JoinRequest, JoinResult, MemberProtocol, SyncResult
from pipeline_broker.state.groups.classic.turn import Turn
from pipeline_broker.state.groups.memory import GroupMemory
from pipeline_broker.wire.error import ErrorCode

__all__ = ["StaticMemberStored", "has_memory", "join", "static_member_not_stored", "static_member_stored"]

# A client id may be as long as a string can be; the id made from it must still fit into one.
MEMBER_ID_PREFIX_MAX = 1_000


@attrs.frozen(eq=False)
class StaticMemberStored:
    """A static member came back under a new id into a stable group: true once the group's record is durable."""

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
    """Answer a join, or park it."""
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
        turn.remove(group, request.member_id)
        rebalancing.maybe_complete_join(turn, group)
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not group.supports(request.protocol_type, request.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _member_of(request: JoinRequest, member_id: str) -> Member:
    """Somebody new, as the request describes it."""
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
    """Whether there is memory for what a member says; one that says no more than before is never refused."""
    member_id = request.member_id
    if group is not None and request.group_instance_id is not None:
        member_id = group.static_members.get(request.group_instance_id, member_id)
    member = None if group is None else group.members.get(member_id)
    held = 0 if member is None else member.size_bytes - len(member.assignment)
    return memory.admits(held, _member_of(request, member_id).size_bytes)


def _has_room(turn: Turn, group: ClassicGroup, member_id: str) -> bool:
    """Whether the group may grow by this join.

    While joins are collected it is those that joined who count: so the last to come back are dropped when the limit was
    lowered meanwhile.
    """
    if group.state in {GroupState.EMPTY, GroupState.DEAD}:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in group.parked_joins or len(group.parked_joins) < turn.settings.group_size_max
    return member_id in group.members or len(group.members) < turn.settings.group_size_max


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
    # Nobody can tell whether the client is still there: it knows no id to send heartbeats with, and its connection is
    # not read while it waits. So a parked join of somebody new ends after a while; a client that is there asks again.
    turn.start_session(group, member_id, turn.settings.new_member_join_timeout_ms)
    rebalancing.prepare_or_complete(turn, group)


def _join_member(turn: Turn, group: ClassicGroup, request: JoinRequest, token: object) -> None:
    error = group.member_error(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        turn.answer(token, JoinResult(error=error, member_id=request.member_id))
        return
    member = group.members[request.member_id]
    unchanged = member.protocols == request.protocols
    leads = group.state is GroupState.STABLE and group.leader == request.member_id
    if group.state is not GroupState.PREPARING_REBALANCE and unchanged and not leads:
        # its answer was lost, or it only wants to be sure: the generation stands
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
    """Let a static member that was restarted take the place of its former self, which is fenced."""
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
    """Whether the join that was parked for the record still waits for it, not for a rebalance begun meanwhile."""
    group = change.group
    return group.parked_joins.get(change.new_id) is change.token and group.state is GroupState.STABLE


def static_member_stored(turn: Turn, change: StaticMemberStored) -> None:
    """The new id is durable: the member is in, without a rebalance."""
    if not _still_waits(change):
        return
    group = change.group
    result = rebalancing.generation_result(group, change.new_id)
    if change.assignment_skippable:
        result = result._replace(skip_assignment=group.leader == change.new_id)
    else:
        # an old client that hears it leads would assign anew: it is told the name that its former self had
        result = result._replace(leader=change.old_leader, members=())
    turn.answer_join(group, change.new_id, result)
    turn.refresh_session(group, group.members[change.new_id])


def static_member_not_stored(turn: Turn, change: StaticMemberStored, error: ErrorCode) -> None:
    """The new id could not be stored: the old one stays."""
    if not _still_waits(change):
        return
    group = change.group
    turn.answer_join(group, change.new_id, JoinResult(error=error))
    member = group.replace_static(change.new_id, change.old_id)
    group.update(member, change.old_protocols, change.old_rebalance_timeout_ms, change.old_session_timeout_ms)
    turn.refresh_session(group, member)
