"""StreamsGroupHeartbeat, the only request of the streams protocol (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypedDict

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.memory import ENTRY_BYTES
from pipeline_broker.state.groups.modern.group_error import GroupError
from pipeline_broker.state.groups.modern.membership import (
    check_full,
    check_memory,
    check_not_empty,
    chosen,
    find_member,
    invalid,
)
from pipeline_broker.state.groups.modern.removal import replace_member
from pipeline_broker.state.groups.modern.step import TimerKind
from pipeline_broker.state.groups.streams.assigning import (
    configured_topology,
    delay_of_assignment,
    reconcile,
    refresh_epoch,
    update_target,
)
from pipeline_broker.state.groups.streams.assignors.members import Offsets
from pipeline_broker.state.groups.streams.endpoints import endpoint_partitions
from pipeline_broker.state.groups.streams.group import NO_OFFSETS, StreamsGroup, TaskOffsets, size_of
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology, StreamsStatus, TopologyProblem
from pipeline_broker.state.groups.streams.member import Member, MemberMetadata
from pipeline_broker.state.groups.streams.messages import HeartbeatRequest, HeartbeatResult, OwnEndpoint
from pipeline_broker.state.groups.streams.roles import tasks_of
from pipeline_broker.state.groups.streams.step import Step
from pipeline_broker.state.groups.streams.topology import Subtopology, Topology, TopologyError, check_topology
from pipeline_broker.state.groups.streams.updates import Subject

__all__ = ["check_request", "heartbeat"]

# Kafka's defaults of two internal settings, which clients need although no member warms up (KIP-1071).
TASK_OFFSET_INTERVAL_MS = 60_000
ACCEPTABLE_RECOVERY_LAG = 10_000


def check_request(request: HeartbeatRequest) -> None:
    """Check the fields of a request that do not depend on the group.

    Raises:
        GroupError: a field is empty, missing or invalid.
    """
    epoch = request.member_epoch
    check_not_empty(request.member_id, "MemberId can't be empty.")
    check_not_empty(request.group_id, "GroupId can't be empty.")
    check_not_empty(request.instance_id, "InstanceId can't be empty.")
    check_not_empty(request.rack_id, "RackId can't be empty.")
    tasks = {"ActiveTasks": request.active, "StandbyTasks": request.standby, "WarmupTasks": request.warmup}
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise invalid("RebalanceTimeoutMs must be provided in first request.")
        for name, owned in tasks.items():
            if owned is None or owned:
                raise invalid(f"{name} must be empty when (re-)joining.")
        if request.topology is None:
            raise invalid("Topology must be non-null when (re-)joining.")
        _check_topology(request.topology)
    elif epoch == -2 and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif epoch < -2:
        raise invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if len({owned is None for owned in tasks.values()}) > 1:
        raise invalid("If one task-type is non-null, all must be non-null.")
    if epoch and request.topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def _check_topology(topology: Topology) -> None:
    try:
        check_topology(topology)
    except TopologyError as error:
        raise GroupError(error.code, error.message) from None


def heartbeat(step: Step, request: HeartbeatRequest, *, is_new: bool) -> HeartbeatResult:
    """Add a member, or restart its session, and move it one step towards its target.

    Args:
        is_new: the group has no member and no topology yet.

    Raises:
        GroupError: the group or its memory is full, the topology or a task is invalid, the member is unknown or fenced,
            its epoch does not match, or another member owns its instance id.
    """
    group, member_id, joins = step.group, request.member_id, request.member_epoch == 0
    old: Member | None = find_member(step, request, member_id)
    if joins and old is None:
        check_full(step, member_id, step.config.group_streams_max_size)
    metadata = _merged((old or Member(member_id)).metadata, request)
    check_memory(step, old, metadata)
    topology = _topology(step, request)
    configured = _configured(step, topology)
    _check_tasks(configured, request)
    offsets = _offsets(step, request)
    statuses = _statuses_before(group, metadata)
    # All checks have passed; the code below emits updates.
    is_first = not group.members
    replaced = old is not None and old.member_id != member_id
    if old is not None and replaced:
        old = replace_member(step, old, member_id)
    before = old or Member(member_id)
    needs_assignment = _update_member(step, before, metadata)
    if group.topology is None:
        step.emit(Subject.TOPOLOGY, "", topology)
    if offsets is not None:
        group.keep_offsets(member_id, offsets)
    refresh_epoch(step, configured, must_bump=needs_assignment)
    delay_ms = step.settings.initial_rebalance_delay_ms
    if is_first and delay_ms:
        step.start_if_absent(TimerKind.INITIAL, "", delay_ms)
    member = _assign(step, configured, request, statuses)
    step.start_session(member)
    if request.shutdown_application and group.shutdown_member_id is None:
        group.shutdown_member_id = member_id
    statuses += _statuses_after(step, configured, request, member)
    if is_new:
        group.configured = None  # as in Kafka, until the next heartbeat
    return HeartbeatResult(
        member_id=member_id,
        member_epoch=member.current.member_epoch,
        heartbeat_interval_ms=step.settings.heartbeat_interval_ms,
        task_offset_interval_ms=TASK_OFFSET_INTERVAL_MS,
        acceptable_recovery_lag=ACCEPTABLE_RECOVERY_LAG,
        statuses=tuple(statuses),
        tasks=tasks_of(member.current.assigned) if joins or _has_changed(before, member) else None,
        topics_to_create=configured.topics_to_create,
        **_endpoints(step, configured, request, before, member, is_new=is_new),
    )


def _merged(before: MemberMetadata, request: HeartbeatRequest) -> MemberMetadata:
    timeout_ms, topology = request.rebalance_timeout_ms, request.topology
    return MemberMetadata(
        instance_id=chosen(request.instance_id, before.instance_id),
        rack_id=chosen(request.rack_id, before.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=before.topology_epoch if topology is None else topology.epoch,
        process_id=chosen(request.process_id, before.process_id),
        # A member that joins without an endpoint has none any more.
        endpoint=before.endpoint if request.member_epoch and request.endpoint is None else request.endpoint,
        client_tags=chosen(request.client_tags, before.client_tags),
    )


def _topology(step: Step, request: HeartbeatRequest) -> Topology:
    known, sent = step.group.topology, request.topology
    if known is None:
        if sent is None:  # records of the topology were lost
            raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology. Its members must join again.")
        if not step.memory.has_room(size_of(sent)):
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, step.memory.refusal)
        return sent
    if sent is None or sent.epoch < known.epoch or _by_id(sent) == _by_id(known):
        return known
    raise invalid("Topology updates are not supported yet.")


def _by_id(topology: Topology) -> tuple[int, list[Subtopology]]:
    return topology.epoch, sorted(topology.subtopologies, key=lambda part: part.id)


def _configured(step: Step, topology: Topology) -> ConfiguredTopology:
    try:
        return configured_topology(step, topology)
    except TopologyError as error:
        raise GroupError(error.code, error.message) from None


def _check_tasks(configured: ConfiguredTopology, request: HeartbeatRequest) -> None:
    if configured.problem is not None:
        return
    counts = {part.id: part.tasks for part in configured.subtopologies or ()}
    for tasks in (request.active, request.standby, request.warmup):
        for subtopology_id, numbers in (tasks or {}).items():
            count = counts.get(subtopology_id)
            if count is None:
                raise invalid(f"Subtopology {subtopology_id} does not exist in the topology.")
            for number in numbers:
                if not 0 <= number < count:
                    raise invalid(
                        f"Task {number} for subtopology {subtopology_id} is invalid. Number of tasks for this"
                        f" subtopology: {count}"
                    )


def _offsets(step: Step, request: HeartbeatRequest) -> TaskOffsets | None:
    if request.task_offsets is None and request.end_offsets is None:
        return None
    known = step.group.task_offsets.get(request.member_id, NO_OFFSETS)
    sent = TaskOffsets(
        known.offsets if request.task_offsets is None else _by_task(request.task_offsets),
        known.end_offsets if request.end_offsets is None else _by_task(request.end_offsets),
    )
    if not step.memory.has_room(ENTRY_BYTES * (sent.entries - known.entries)):
        raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, step.memory.refusal)
    return sent


def _by_task(offsets: Iterable[tuple[str, int, int]]) -> Offsets:
    found: dict[str, dict[int, int]] = {}
    for subtopology_id, number, offset in offsets:
        if number in found.setdefault(subtopology_id, {}):
            raise invalid(
                f"Task offsets contain a duplicate entry for subtopology {subtopology_id} and partition {number}."
            )
        found[subtopology_id][number] = offset
    return found


def _update_member(step: Step, before: Member, metadata: MemberMetadata) -> bool:
    """Store the metadata of a member; return whether the group needs a new assignment."""
    old = before.metadata
    is_new = before.member_id not in step.group.members
    if metadata == old and not is_new:
        return False
    step.emit(Subject.MEMBER, before.member_id, metadata)
    # A static member may return from another host without a new assignment.
    return metadata.instance_id is None or _assigned_by(metadata) != _assigned_by(old)


def _assigned_by(metadata: MemberMetadata) -> tuple[object, ...]:
    return metadata.topology_epoch, metadata.rack_id, metadata.client_tags, metadata.process_id


def _assign(
    step: Step, configured: ConfiguredTopology, request: HeartbeatRequest, statuses: list[TopologyProblem]
) -> Member:
    group, member_id = step.group, request.member_id
    reason = delay_of_assignment(step)
    if reason is None:
        update_target(step, configured)
    else:
        statuses.append(TopologyProblem(StreamsStatus.ASSIGNMENT_DELAYED, reason))
    target = {} if step.is_running(TimerKind.INITIAL, "") else group.target_of(member_id)
    return reconcile(step, group.members[member_id], group.assignment_epoch, target, request.owned)


def _statuses_before(group: StreamsGroup, metadata: MemberMetadata) -> list[TopologyProblem]:
    known = group.topology
    if known is None or metadata.topology_epoch >= known.epoch:
        return []
    detail = (
        f"The member's topology epoch {metadata.topology_epoch} is behind the group's topology epoch {known.epoch}."
    )
    return [TopologyProblem(StreamsStatus.STALE_TOPOLOGY, detail)]


def _statuses_after(
    step: Step, configured: ConfiguredTopology, request: HeartbeatRequest, member: Member
) -> Iterator[TopologyProblem]:
    if configured.problem is not None:
        yield configured.problem
    requester = step.group.shutdown_member_id
    if requester is not None:
        yield TopologyProblem(
            StreamsStatus.SHUTDOWN_APPLICATION,
            f"Streams group member {requester} encountered a fatal error and requested a shutdown for the entire"
            " application.",
        )
    tags = member.metadata.client_tags
    missing = [tag for tag in step.settings.rack_aware_assignment_tags if tag not in tags]
    if missing and request.knows_missing_tags:
        yield TopologyProblem(
            StreamsStatus.MISSING_CLIENT_TAGS,
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]."
            " Configure them via 'client.tag.<tagKey>' in your Streams config.",
        )


def _has_changed(before: Member, member: Member) -> bool:
    return before.current.assigned != member.current.assigned


class _EndpointFields(TypedDict):
    endpoint_epoch: int
    endpoints: tuple[OwnEndpoint, ...] | None


def _endpoints(
    step: Step,
    configured: ConfiguredTopology,
    request: HeartbeatRequest,
    before: Member,
    member: Member,
    *,
    is_new: bool,
) -> _EndpointFields:
    """Return the endpoint epoch, and the partitions of all endpoints unless the member has them."""
    group, endpoint = step.group, member.metadata.endpoint
    has_changed = endpoint != before.metadata.endpoint or (endpoint is not None and _has_changed(before, member))
    # As in Kafka, a new group has the endpoint epoch 0, even if its first member has an endpoint.
    if has_changed and not is_new:
        group.endpoint_epoch += 1
    if group.endpoint_epoch == request.endpoint_epoch and not (has_changed and is_new):
        return {"endpoint_epoch": group.endpoint_epoch, "endpoints": None}
    rows = tuple(
        OwnEndpoint(
            other.metadata.endpoint,
            endpoint_partitions(tasks_of(other.current.assigned), configured, step.partitions_of),
        )
        for other in group.members.values()
        if other.metadata.endpoint is not None
    )
    return {"endpoint_epoch": group.endpoint_epoch, "endpoints": rows}
