"""Descriptions of streams groups for administrators."""

from __future__ import annotations

from pipeline_broker.state.groups.streams.assigning import assignor_name
from pipeline_broker.state.groups.streams.group import NO_OFFSETS, StreamsGroup
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredSubtopology
from pipeline_broker.state.groups.streams.member import Member
from pipeline_broker.state.groups.streams.messages import DescribedStreamsGroup, DescribedStreamsMember
from pipeline_broker.state.groups.streams.roles import OwnedTasks, TaskKey, tasks_of
from pipeline_broker.state.groups.streams.step import Step
from pipeline_broker.state.groups.streams.tasks import Tasks
from pipeline_broker.state.groups.streams.topology import Subtopology, Topology

__all__ = ["describe_group", "input_partitions", "owned_tasks"]


def describe_group(step: Step, pending: StreamsGroup | None) -> DescribedStreamsGroup:
    """Describe the durable group of a step.

    Args:
        pending: the group with the offsets of tasks and numbers of partitions.
    """
    group = step.group
    offsets = {} if pending is None else pending.task_offsets
    return DescribedStreamsGroup(
        group_id=group.group_id,
        state=group.state_name,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology_epoch=0 if group.topology is None else group.topology.epoch,
        subtopologies=_subtopologies(group.topology, pending),
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


def _subtopologies(
    topology: Topology | None, pending: StreamsGroup | None
) -> tuple[ConfiguredSubtopology, ...] | tuple[Subtopology, ...]:
    configured = None if pending is None else pending.configured
    if configured is not None and configured.problem is None and configured.subtopologies is not None:
        return configured.subtopologies
    return () if topology is None else tuple(sorted(topology.subtopologies, key=lambda part: part.id))


def owned_tasks(member: Member) -> Tasks:
    """Return the tasks of a member, with those that it must revoke but still has."""
    owned: dict[TaskKey, set[int]] = {}
    parts: tuple[OwnedTasks, OwnedTasks] = (member.current.assigned, member.current.revoking)
    for part in parts:
        for key, epochs in part.items():
            owned.setdefault(key, set()).update(epochs)
    return tasks_of(owned)


def input_partitions(step: Step, member: Member) -> dict[str, tuple[int, ...]]:
    active, topology = owned_tasks(member).active, step.group.topology
    found: dict[str, tuple[int, ...]] = {}
    for part in () if topology is None else topology.subtopologies:
        for topic in (*part.source_topics, *(each.name for each in part.repartition_source_topics)):
            count = step.partitions_of(topic) or 0
            numbers = tuple(sorted(number for number in active.get(part.id, ()) if number < count))
            if numbers:
                found[topic] = numbers
    return found
