"""ConsumerGroupHeartbeat, the only request of the consumer protocol (KIP-848)."""

from __future__ import annotations

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.consumer import assigning
from pipeline_broker.state.groups.consumer.member import Member, MemberMetadata
from pipeline_broker.state.groups.consumer.messages import HeartbeatRequest, HeartbeatResult, MatchesNeeded
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.subscribing import change_regex, check_regex, refresh_regexes
from pipeline_broker.state.groups.consumer.updates import Subject
from pipeline_broker.state.groups.modern.group_error import GroupError
from pipeline_broker.state.groups.modern.member import LEAVING_EPOCH
from pipeline_broker.state.groups.modern.membership import (
    assigned_of,
    check_full,
    check_leaving,
    check_memory,
    check_not_empty,
    chosen,
    find_member,
    invalid,
)
from pipeline_broker.state.groups.modern.removal import replace_member
from pipeline_broker.state.groups.modern.step import TimerKind

__all__ = ["check_request", "heartbeat", "update_member"]


def check_request(request: HeartbeatRequest, config: BrokerConfig) -> None:
    """Check the fields of a request that do not depend on the group.

    Raises:
        GroupError: a field is empty, missing or invalid, or the assignor is unknown.
    """
    epoch = request.member_epoch
    if request.id_required or epoch > 0 or epoch == LEAVING_EPOCH:
        check_not_empty(request.member_id, "MemberId can't be empty.")
    check_not_empty(request.group_id, "GroupId can't be empty.")
    check_not_empty(request.instance_id, "InstanceId can't be empty.")
    check_not_empty(request.rack_id, "RackId can't be empty.")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise invalid("TopicPartitions must be empty when (re-)joining.")
        if request.topic_names is None and request.topic_regex is None:
            raise invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            )
    check_leaving(request)
    assignor, known = request.server_assignor, config.consumer_assignors
    if assignor is not None and assignor not in known:
        raise GroupError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(known)}.",
        )


def heartbeat(step: Step, request: HeartbeatRequest) -> HeartbeatResult:
    """Add a member, or restart its session, and move it one step towards its target.

    Raises:
        GroupError: the group or its memory is full, the regular expression is invalid, the member is unknown or fenced,
            its epoch does not match, or another member owns its instance id.
    """
    member_id = request.member_id or request.fresh_id
    check_full(step, request.member_id, step.config.group_consumer_max_size)
    old: Member | None = find_member(step, request, member_id)
    check_regex(request.topic_regex)
    metadata = _merged((old or Member(member_id)).metadata, request)
    check_memory(step, old, metadata)
    chooses = old is None or metadata.server_assignor != old.metadata.server_assignor
    assignor = assigning.assignor_name(step) if chooses else None
    regex = metadata.topic_regex
    if regex and regex not in step.group.regexes and request.matches is None and not request.may_match:
        raise MatchesNeeded
    # All checks have passed; the code below emits updates.
    if old is not None and old.member_id != member_id:
        old = replace_member(step, old, member_id)
    before = old or Member(member_id)
    if before.metadata.classic is not None:  # the member has switched from the classic protocol
        step.stop(TimerKind.JOIN, member_id)
        step.stop(TimerKind.SYNC, member_id)
    changed = update_member(step, before, metadata)
    old_regex = before.metadata.topic_regex
    regex_changed = change_regex(step, old_regex, regex, request.may_describe, request.matches)
    refreshed = refresh_regexes(step, request.may_describe)
    reassigned = assignor is not None and assigning.assignor_name(step) != assignor
    assigning.refresh_epoch(step, must_bump=changed or regex_changed or refreshed or reassigned)
    assigning.update_target(step)
    member = assigning.reconcile(
        step,
        step.group.members[member_id],
        request.owned,
        subscription_changed=changed or old_regex != regex,
    )
    step.start_session(member)
    # A member sends a full request if it joins or a response was lost. It needs the assignment even if unchanged.
    must_send = request.is_full or assigned_of(before.current.assigned) != assigned_of(member.current.assigned)
    return HeartbeatResult(
        member_id=member_id,
        member_epoch=member.current.member_epoch,
        heartbeat_interval_ms=step.settings.heartbeat_interval_ms,
        assignment=assigned_of(member.current.assigned) if must_send else None,
    )


def update_member(step: Step, before: Member, metadata: MemberMetadata) -> bool:
    """Store the metadata of a member; return whether its subscribed topic names have changed."""
    if metadata != before.metadata or before.member_id not in step.group.members:
        step.emit(Subject.MEMBER, before.member_id, metadata)
    return metadata.topic_names != before.metadata.topic_names


def _merged(before: MemberMetadata, request: HeartbeatRequest) -> MemberMetadata:
    timeout_ms = request.rebalance_timeout_ms
    return MemberMetadata(
        instance_id=chosen(request.instance_id, before.instance_id),
        rack_id=chosen(request.rack_id, before.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=chosen(request.topic_names, before.topic_names),
        topic_regex=chosen(request.topic_regex, before.topic_regex),
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=chosen(request.server_assignor, before.server_assignor),
    )
