"""Epochs and assignments of a streams group, and the reconciliation of one member.

* Group epoch: increases when members, the topology, its topics or the settings of assignments change.
* Assignment epoch: follows the group epoch, at most once per assignment interval.
* Member epoch: follows the assignment epoch, after the member has revoked its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import attrs

from pipeline_broker.state.epochs import next_epoch
from pipeline_broker.state.groups.modern.step import TimerKind
from pipeline_broker.state.groups.modern.updates import TargetEpoch
from pipeline_broker.state.groups.streams.assignors.by_name import assign
from pipeline_broker.state.groups.streams.assignors.members import AssignedMember, AssignmentConfigs
from pipeline_broker.state.groups.streams.group import NO_OFFSETS
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology, configure
from pipeline_broker.state.groups.streams.member import Member
from pipeline_broker.state.groups.streams.reconciliation import TaskReconciliation
from pipeline_broker.state.groups.streams.roles import (
    AssignedTasks,
    Role,
    TaskKey,
    assigned_tasks,
    tasks_of,
)
from pipeline_broker.state.groups.streams.step import Step
from pipeline_broker.state.groups.streams.tasks import NO_TASKS
from pipeline_broker.state.groups.streams.topology import Topology
from pipeline_broker.state.groups.streams.updates import GroupEpoch, Subject
from pipeline_broker.state.groups.topic_view import metadata_hash

__all__ = [
    "assignment_configs",
    "assignor_name",
    "bump_epoch",
    "configured_topology",
    "delay_of_assignment",
    "reconcile",
    "refresh_epoch",
    "update_target",
]

NO_TOPOLOGY_EPOCH = -1


def configured_topology(step: Step, topology: Topology) -> ConfiguredTopology:
    """Return the topology on the existing topics.

    Raises:
        TopologyError: no topics would make it valid.
    """
    group = step.group
    if topology == group.topology and group.configured is not None and group.topics_version == step.topics_version:
        return group.configured
    return configure(topology, step.partitions_of)


def assignment_configs(step: Step) -> dict[str, str]:
    settings = step.settings
    configs = {"num.standby.replicas": str(settings.num_standby_replicas)}
    if settings.rack_aware_assignment_tags:
        configs["rack.aware.assignment.tags"] = ",".join(settings.rack_aware_assignment_tags)
    return configs


def refresh_epoch(step: Step, configured: ConfiguredTopology, *, must_bump: bool) -> None:
    """Bump the group epoch if members, the topology, its topics or settings have changed.

    Args:
        must_bump: the caller has changed a member.
    """
    group = step.group
    assert group.topology is not None, "it has been checked"
    group.configured, group.topics_version = configured, step.topics_version
    configs = assignment_configs(step)
    found = attrs.evolve(
        group.input,
        metadata_hash=metadata_hash(step.topics, group.topology.required_topics),
        validated_topology_epoch=NO_TOPOLOGY_EPOCH if configured.problem is not None else configured.epoch,
        assignment_configs=configs,
    )
    if must_bump or found != group.input:
        _move(step, found)


def bump_epoch(step: Step) -> None:
    _move(step, step.group.input)


def _move(step: Step, found: GroupEpoch) -> None:
    step.emit(Subject.GROUP_EPOCH, "", attrs.evolve(found, epoch=next_epoch(step.group.epoch)))


def assignor_name(step: Step) -> str:
    own = step.settings.assignor_name
    return own if own in step.config.streams_assignors else step.config.streams_assignors[0]


def delay_of_assignment(step: Step) -> str | None:
    """Return the reason why a new target assignment waits; None if it does not."""
    group = step.group
    if step.is_running(TimerKind.INITIAL, ""):
        return "Assignment delayed due to the configured initial rebalance delay."
    if group.epoch > group.assignment_epoch and step.now_ms < group.assigned_ms + step.settings.assignment_interval_ms:
        return "Assignment delayed due to the configured assignment interval."
    return None


def update_target(step: Step, configured: ConfiguredTopology) -> None:
    """Compute the target assignment of the group epoch, if it is newer than the last one."""
    group = step.group
    if group.epoch <= group.assignment_epoch:
        return
    if configured.problem is None:
        configs = AssignmentConfigs(step.settings.num_standby_replicas, step.settings.rack_aware_assignment_tags)
        members = {member.member_id: _to_assign(step, member) for member in group.members.values()}
        target = assign(assignor_name(step), members, configured, configs)
    else:
        target = {}
    for member_id in group.members:
        tasks = assigned_tasks(target.get(member_id, NO_TASKS))
        if group.target.get(member_id) != tasks:
            step.emit(Subject.TARGET, member_id, tasks)
    step.emit(Subject.TARGET_EPOCH, "", TargetEpoch(group.epoch, step.now_ms))


def _to_assign(step: Step, member: Member) -> AssignedMember:
    metadata = member.metadata
    offsets = step.group.task_offsets.get(member.member_id, NO_OFFSETS)
    return AssignedMember(
        process_id=metadata.process_id,
        assigned=tasks_of(step.group.target_of(member.member_id)),
        task_offsets=offsets.offsets,
        task_end_offsets=offsets.end_offsets,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_tags=metadata.client_tags,
    )


def reconcile(
    step: Step, member: Member, target_epoch: int, target: AssignedTasks, owned: AssignedTasks | None
) -> Member:
    """Move a member one step towards its target assignment, and return its new state.

    Args:
        owned: tasks that the member reports to own; None if the request does not say.
    """
    group = step.group
    if member.current.is_reconciled_to(target_epoch):
        return member
    current = TaskReconciliation(
        current=member.current,
        target_epoch=target_epoch,
        target=target,
        owned=owned,
        is_taken=_taken(step, member),
    ).next()
    if current != member.current:
        step.emit_current(member.member_id, current)
    return group.members[member.member_id]


def _taken(step: Step, member: Member) -> Callable[[TaskKey, int], bool]:
    """Return a function that returns whether a task is not free for a member.

    An active task has one member. The members of a process share the state of tasks, so that only one of them can have
    a task. That one may change the role of its task.
    """
    group, process_id, has = step.group, member.metadata.process_id, member.current.assigned
    members: Mapping[str, Member] = group.members

    @cache
    def owned(key: TaskKey) -> list[tuple[TaskKey, Mapping[int, tuple[str, ...]]]]:
        return [(other, group.owners[other]) for other in key.every_role() if other in group.owners]

    def is_taken(key: TaskKey, task: int) -> bool:
        for other, owners_of in owned(key):
            owners = owners_of.get(task, ())
            if other.role is key.role is Role.ACTIVE and owners:
                return True
            if all(members[owner].metadata.process_id != process_id for owner in owners):
                continue
            is_conversion = other.role is not key.role and (key.role, other.role) != (Role.WARMUP, Role.ACTIVE)
            if not (is_conversion and task in has.get(other, ())):
                return True
        return False

    return is_taken
