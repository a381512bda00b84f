"""ConsumerGroupHeartbeat, the only request of the consumer protocol (KIP-848).

| member epoch | meaning |
|---|---|
| 0 | the member joins, or joins again after it was fenced |
| > 0 | the member stays |
| -1 | the member leaves |
| -2 | a static member leaves temporarily |
"""

from __future__ import annotations

from typing import TypeVar

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.consumer import assigning
from pipeline_broker.state.groups.consumer.leaving import replace_member
from pipeline_broker.state.groups.consumer.member import (
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    Member,
    MemberMetadata,
    OwnedPartitions,
    Partitions,
)
from pipeline_broker.state.groups.consumer.messages import GroupError, HeartbeatRequest, HeartbeatResult
from pipeline_broker.state.groups.consumer.step import Step, TimerKind
from pipeline_broker.state.groups.consumer.subscribing import change_regex, check_regex, refresh_regexes
from pipeline_broker.state.groups.consumer.updates import Subject

__all__ = [
    "check_full",
    "check_request",
    "heartbeat",
    "is_leaving",
    "leaving_members",
    "partitions_of",
    "update_member",
]

Field = TypeVar("Field")


def check_request(request: HeartbeatRequest, config: BrokerConfig) -> None:
    """Check the fields of a request that do not depend on the group.

    Raises:
        GroupError: a field is empty, missing or invalid, or the assignor is unknown.
    """
    epoch = request.member_epoch
    if request.id_required or epoch > 0 or epoch == LEAVING_EPOCH:
        _check_not_empty(request.member_id, "MemberId can't be empty.")
    _check_not_empty(request.group_id, "GroupId can't be empty.")
    _check_not_empty(request.instance_id, "InstanceId can't be empty.")
    _check_not_empty(request.rack_id, "RackId can't be empty.")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.topic_names is None and request.topic_regex is None:
            raise _invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            )
    elif epoch == LEAVING_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignor, known = request.server_assignor, config.consumer_assignors
    if assignor is not None and assignor not in known:
        raise GroupError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(known)}.",
        )


def _check_not_empty(text: str | None, message: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(message)


def _invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message)


def is_leaving(request: HeartbeatRequest) -> bool:
    """Return whether the member leaves, for good or temporarily."""
    return request.member_epoch in {LEAVING_EPOCH, LEAVING_STATIC_EPOCH}


def check_full(step: Step, member_id: str) -> None:
    """Raise GroupError if the group has no space for another member."""
    size_max = step.config.group_consumer_max_size
    if len(step.group.members) >= size_max and member_id not in step.group.members:
        raise GroupError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def check_memory(step: Step, old: Member | None, new: MemberMetadata) -> None:
    """Raise GroupError if the memory bound does not allow the member's metadata."""
    if not step.memory.admits(0 if old is None else old.metadata.size_bytes, new.size_bytes):
        raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, step.memory.refusal)


def heartbeat(step: Step, request: HeartbeatRequest) -> HeartbeatResult:
    """Add a member, or restart its session, and move it one step towards its target.

    Raises:
        GroupError: the group or its memory is full, the regular expression is invalid, the member is unknown or fenced,
            its epoch does not match, or another member owns its instance id.
    """
    member_id = request.member_id or request.fresh_id
    check_full(step, request.member_id)
    old = _find(step, request, member_id)
    check_regex(request.topic_regex)
    metadata = _merged((old or Member(member_id)).metadata, request)
    check_memory(step, old, metadata)
    chooses = old is None or metadata.server_assignor != old.metadata.server_assignor
    assignor = assigning.assignor_name(step) if chooses else None
    # All checks have passed; the code below emits updates.
    if old is not None and old.member_id != member_id:
        old = replace_member(step, old, member_id)
    before = old or Member(member_id)
    if before.metadata.classic is not None:  # the member has switched from the classic protocol
        step.stop(TimerKind.JOIN, member_id)
        step.stop(TimerKind.SYNC, member_id)
    changed = update_member(step, before, metadata)
    regex_changed = change_regex(step, before.metadata.topic_regex, metadata.topic_regex, request.may_describe)
    refreshed = refresh_regexes(step, request.may_describe)
    reassigned = assignor is not None and assigning.assignor_name(step) != assignor
    assigning.refresh_epoch(step, must_bump=changed or regex_changed or refreshed or reassigned)
    assigning.update_target(step)
    member = assigning.reconcile(
        step,
        step.group.members[member_id],
        request.owned,
        subscription_changed=changed or before.metadata.topic_regex != metadata.topic_regex,
    )
    step.start_session(member)
    # A member sends a full request if it joins or a response was lost. It needs the assignment even if unchanged.
    must_send = request.is_full or _differs(before.current.assigned, member.current.assigned)
    return HeartbeatResult(
        member_id=member_id,
        member_epoch=member.current.member_epoch,
        heartbeat_interval_ms=step.settings.heartbeat_interval_ms,
        assignment=partitions_of(member.current.assigned) if must_send else None,
    )


def update_member(step: Step, before: Member, metadata: MemberMetadata) -> bool:
    """Store the metadata of a member; return whether its subscribed topic names have changed."""
    if metadata != before.metadata or before.member_id not in step.group.members:
        step.emit(Subject.MEMBER, before.member_id, metadata)
    return metadata.topic_names != before.metadata.topic_names


def _merged(before: MemberMetadata, request: HeartbeatRequest) -> MemberMetadata:
    timeout_ms = request.rebalance_timeout_ms
    return MemberMetadata(
        instance_id=_chosen(request.instance_id, before.instance_id),
        rack_id=_chosen(request.rack_id, before.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=_chosen(request.topic_names, before.topic_names),
        topic_regex=_chosen(request.topic_regex, before.topic_regex),
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_chosen(request.server_assignor, before.server_assignor),
    )


def _chosen(new: Field | None, old: Field) -> Field:
    return old if new is None else new


def _find(step: Step, request: HeartbeatRequest, member_id: str) -> Member | None:
    """Return the member that sent the request, or the static member that it replaces; None for a new member."""
    group, joins = step.group, request.member_epoch == 0
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is not None:
            _check_epoch(member, request)
        elif not joins:
            raise _unknown(step, member_id)
        return member
    holder = group.static_member(request.instance_id)
    # A join may replace a member that has left temporarily, or one that switches from the classic protocol.
    if joins:
        if (
            holder is not None
            and holder.metadata.classic is None
            and holder.current.member_epoch != LEAVING_STATIC_EPOCH
        ):
            raise GroupError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the"
                f" instance id is owned by {holder.member_id} member.",
            )
        return holder
    _check_epoch(holder := _static(holder, request.instance_id, member_id), request)
    return holder


def _static(holder: Member | None, instance_id: str, member_id: str) -> Member:
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


def _check_epoch(member: Member, request: HeartbeatRequest) -> None:
    epoch, current = request.member_epoch, member.current
    if epoch in {0, current.member_epoch}:
        return
    is_last = epoch == current.previous_epoch and _is_within(request.owned, current.assigned)
    if epoch < current.member_epoch and is_last:
        return  # the response with the new epoch was lost
    compared = "greater" if epoch > current.member_epoch else "smaller"
    raise GroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {compared} member epoch ({epoch}) than the one known by the group"
        f" coordinator ({current.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_within(owned: Partitions | None, assigned: OwnedPartitions) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in assigned and partitions <= assigned[topic_id].keys() for topic_id, partitions in owned.items()
    )


def _differs(before: OwnedPartitions, after: OwnedPartitions) -> bool:
    return partitions_of(before) != partitions_of(after)


def partitions_of(owned: OwnedPartitions) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(epochs) for topic_id, epochs in owned.items()}


def leaving_members(step: Step, request: HeartbeatRequest) -> tuple[HeartbeatResult, tuple[Member, ...]]:
    """Return the response to a member that leaves, and the members to remove.

    A static member that leaves temporarily is not removed: this function only updates its epoch.

    Raises:
        GroupError: the member is unknown or fenced.
    """
    group, member_id = step.group, request.member_id
    result = HeartbeatResult(member_id=member_id, member_epoch=request.member_epoch)
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise _unknown(step, member_id)
        return result, (member,)
    member = _static(group.static_member(request.instance_id), request.instance_id, member_id)
    if request.member_epoch == LEAVING_EPOCH:
        return result, (member,)
    left = attrs.evolve(member.current, member_epoch=LEAVING_STATIC_EPOCH, revoking={})
    step.emit(Subject.CURRENT, member_id, left)
    step.stop(TimerKind.REBALANCE, member_id)
    return result, ()
