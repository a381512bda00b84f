"""JoinGroup, SyncGroup and Heartbeat of classic members in a consumer group (KIP-848, "online migration").

* The generation is the member epoch.
* Heartbeat announces a rebalance: the group epoch has moved on, partitions must be revoked, or awaited partitions are
  free. A member that does not rejoin within its rebalance timeout is removed.
* The coordinator assigns partitions and sends them in SyncGroup responses; the group has no leader.
"""

from __future__ import annotations

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.classic.messages import (
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeavingMember,
    LeftMember,
    SyncRequest,
    SyncResult,
)
from pipeline_broker.state.groups.consumer import assigning
from pipeline_broker.state.groups.consumer.embedded import partitions_by_id, write_assignment
from pipeline_broker.state.groups.consumer.heartbeats import update_member
from pipeline_broker.state.groups.consumer.member import ClassicMetadata, Member, MemberMetadata
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.updates import Subject
from pipeline_broker.state.groups.modern.group_error import GroupError
from pipeline_broker.state.groups.modern.member import MemberState
from pipeline_broker.state.groups.modern.membership import assigned_of, check_full, check_memory
from pipeline_broker.state.groups.modern.removal import replace_member
from pipeline_broker.state.groups.modern.step import TimerKind
from pipeline_broker.wire.consumer_protocol import MalformedError, read_subscription, subscription_version
from pipeline_broker.wire.messages.groups.consumer_protocol import ConsumerProtocolSubscription

__all__ = ["heartbeat", "join", "leaving", "sync"]

PROTOCOL_TYPE = "consumer"


def join(step: Step, request: JoinRequest) -> JoinResult:
    """Add a member, or move it one step towards its target.

    A dynamic client without a member id only receives one, with MEMBER_ID_REQUIRED, if `member_id_required` is set.

    Raises:
        GroupError: the group or its memory is full, the protocol does not match or cannot be decoded, or the static
            member is unknown or fenced.
    """
    member_id = request.member_id or request.fresh_id
    check_full(step, request.member_id, step.config.group_consumer_max_size)
    if request.protocol_type != PROTOCOL_TYPE or not step.group.supports_classic(
        {protocol.name: protocol.metadata for protocol in request.protocols}
    ):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.member_id and request.group_instance_id is None and request.member_id_required:
        return JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    try:
        subscription = read_subscription(request.protocols[0].metadata)
    except MalformedError:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None
    old = _find(step, request, member_id)
    metadata = _metadata(request, subscription)
    check_memory(step, old, metadata)
    # All checks have passed; the code below emits updates.
    if old is not None and old.member_id != member_id:
        old = replace_member(step, old, member_id)
    before = old or Member(member_id)
    changed = update_member(step, before, metadata)
    regex = before.metadata.topic_regex
    # The member has switched from the consumer protocol, and was the last one with this regular expression.
    if regex and not step.group.regex_members(regex):
        step.emit(Subject.REGEX, regex, None)
    assigning.refresh_epoch(step, must_bump=changed or bool(regex))
    assigning.update_target(step)
    owned = partitions_by_id(step.topics, subscription.owned_partitions)
    member = assigning.reconcile(
        step, step.group.members[member_id], owned, subscription_changed=changed or bool(regex)
    )
    step.stop(TimerKind.JOIN, member_id)
    step.start_session(member)
    step.start(TimerKind.SYNC, member_id, request.rebalance_timeout_ms)
    return JoinResult(
        member_id=member_id,
        generation_id=member.current.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )


def _find(step: Step, request: JoinRequest, member_id: str) -> Member | None:
    if request.group_instance_id is None:
        return step.group.members.get(member_id)
    holder = step.group.static_member(request.group_instance_id)
    return holder if not request.member_id else _static(holder, member_id)


def _static(holder: Member | None, member_id: str) -> Member:
    if holder is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    if holder.member_id != member_id:
        raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
    return holder


def _metadata(request: JoinRequest, subscription: ConsumerProtocolSubscription) -> MemberMetadata:
    return MemberMetadata(
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicMetadata(
            request.session_timeout_ms, tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        ),
    )


def _member(step: Step, member_id: str, instance_id: str | None, generation_id: int) -> tuple[Member, ClassicMetadata]:
    group = step.group
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = _static(group.static_member(instance_id), member_id)
    if member is None or member.metadata.classic is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation_id != member.current.member_epoch:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.metadata.classic


def sync(step: Step, request: SyncRequest) -> SyncResult:
    """Return the assignment of a member, and restart its session.

    Raises:
        GroupError: the member is unknown or fenced, its generation or protocol does not match, or it must join again.
    """
    member, classic = _member(step, request.member_id, request.group_instance_id, request.generation_id)
    name, data = classic.protocols[0]
    if request.protocol_type not in {None, PROTOCOL_TYPE} or request.protocol_name not in {None, name}:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    current = member.current
    # A member that must revoke partitions needs its reduced assignment first.
    if _is_behind(step, member) and current.state is not MemberState.UNREVOKED_PARTITIONS:
        # Repeated requests do not extend the time to rejoin.
        step.start_if_absent(TimerKind.JOIN, member.member_id, member.metadata.rebalance_timeout_ms)
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    step.stop(TimerKind.SYNC, member.member_id)
    step.start_session(member)
    return SyncResult(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=write_assignment(step.topics, assigned_of(current.assigned), subscription_version(data)),
    )


def heartbeat(step: Step, request: HeartbeatRequest) -> ErrorCode:
    """Restart the session of a member; return REBALANCE_IN_PROGRESS if it must join again, otherwise NONE.

    Raises:
        GroupError: the member is unknown or fenced, or its generation does not match.
    """
    member, _ = _member(step, request.member_id, request.group_instance_id, request.generation_id)
    step.start_session(member)
    current = member.current
    if (
        _is_behind(step, member)
        or current.state is MemberState.UNREVOKED_PARTITIONS
        or (current.state is MemberState.UNRELEASED_PARTITIONS and not _waits(step, member))
    ):
        step.start_if_absent(TimerKind.JOIN, member.member_id, member.metadata.rebalance_timeout_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _is_behind(step: Step, member: Member) -> bool:
    """Return whether a join now would change the member's epoch or assignment."""
    return member.current.member_epoch < step.group.assignment_epoch or assigning.is_target_due(step)


def _waits(step: Step, member: Member) -> bool:
    """Return whether another member still owns a partition of the member's target."""
    group = step.group
    for topic_id, partitions in group.target_of(member.member_id).items():
        missing = partitions - member.current.assigned.get(topic_id, {}).keys()
        if any(group.owner(topic_id, partition) is not None for partition in missing):
            return True
    return False


def leaving(step: Step, leaver: LeavingMember) -> tuple[LeftMember, Member | None]:
    """Resolve one entry of a LeaveGroup request to a member of either protocol.

    Returns the result for the response and the member to remove, if any.
    """
    group, error = step.group, ErrorCode.NONE
    if leaver.group_instance_id is None:
        member = group.members.get(leaver.member_id)
    else:
        member = group.static_member(leaver.group_instance_id)
    if member is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif leaver.member_id not in {"", member.member_id}:
        member, error = None, ErrorCode.FENCED_INSTANCE_ID
    return LeftMember(leaver.member_id, leaver.group_instance_id, error), member
