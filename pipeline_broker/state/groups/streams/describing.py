"""Descriptions of streams groups for administrators."""

from __future__ import annotations

from pipeline_broker.state.groups.streams.assigning import assignor_name, configured_topology
from pipeline_broker.state.groups.streams.group import NO_OFFSETS, StreamsGroup
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredSubtopology
from pipeline_broker.state.groups.streams.member import Member
from pipeline_broker.state.groups.streams.messages import DescribedStreamsGroup, DescribedStreamsMember
from pipeline_broker.state.groups.streams.roles import OwnedTasks, TaskKey, tasks_of
from pipeline_broker.state.groups.streams.step import Step
from pipeline_broker.state.groups.streams.tasks import Tasks
from pipeline_broker.state.groups.streams.topology import Subtopology, TopologyError

__all__ = ["describe_group", "input_partitions", "owned_tasks"]


def describe_group(step: Step, pending: StreamsGroup | None) -> DescribedStreamsGroup:
    """Describe the durable group of a step.

    Args:
        pending: the group with the offsets of tasks.
    """
    group = step.group
    offsets = {} if pending is None else pending.task_offsets
    return DescribedStreamsGroup(
        group_id=group.group_id,
        state=group.state_name,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology_epoch=0 if group.topology is None else group.topology.epoch,
        subtopologies=_subtopologies(step),
        assignor=assignor_name(step),
        members=tuple(
            DescribedStreamsMember(
                member_id=member.member_id,
                member_epoch=member.current.member_epoch,
                metadata=member.metadata,
                tasks=tasks_of(member.current.assigned),
                target=tasks_of(group.target_of(member.member_id)),
                offsets=offsets.get(member.member_id, NO_OFFSETS),
            )
            for member in group.members.values()
        ),
    )


def _subtopologies(step: Step) -> tuple[ConfiguredSubtopology, ...] | tuple[Subtopology, ...]:
    topology = step.group.topology
    if topology is None:
        return ()
    configured = _configured(step)
    return topology.subtopologies if configured is None else configured


def _configured(step: Step) -> tuple[ConfiguredSubtopology, ...] | None:
    if step.group.topology is None:
        return None
    try:
        found = configured_topology(step, step.group.topology)
    except TopologyError:  # of a replayed record
        return None
    return found.subtopologies if found.problem is None else None


def owned_tasks(member: Member) -> Tasks:
    """Return the tasks of a member, with those that it must revoke but still has."""
    owned: dict[TaskKey, set[int]] = {}
    parts: tuple[OwnedTasks, OwnedTasks] = (member.current.assigned, member.current.revoking)
    for part in parts:
        for key, epochs in part.items():
            owned.setdefault(key, set()).update(epochs)
    return tasks_of(owned)


def input_partitions(step: Step, member: Member) -> dict[str, tuple[int, ...]]:
    """Return the partitions that a member reads as active tasks, by topic."""
    active = owned_tasks(member).active
    found: dict[str, tuple[int, ...]] = {}
    for part in _configured(step) or ():
        for topic in sorted(part.input_topics):
            count = step.partitions_of(topic) or 0
            numbers = tuple(sorted(number for number in active.get(part.id, ()) if number < count))
            if numbers:
                found[topic] = numbers
    return found
