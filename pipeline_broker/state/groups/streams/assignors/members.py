"""The input and output of a task assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology
from pipeline_broker.state.groups.streams.tasks import NO_TASKS, Tasks

__all__ = ["AssignedMember", "AssignmentConfigs", "Offsets", "TaskAssignor"]

Offsets: TypeAlias = Mapping[str, Mapping[int, int]]
"""Sums of changelog offsets of tasks, by subtopology id and partition."""
_NONE: Mapping[Any, Any] = MappingProxyType({})


class AssignedMember(NamedTuple):
    """One member, as an assignor sees it.

    Attributes:
        assigned: its previous target assignment.
        task_offsets: of the tasks with state on its disk; empty until the member reports them.
    """

    process_id: str
    assigned: Tasks = NO_TASKS
    task_offsets: Offsets = _NONE
    task_end_offsets: Offsets = _NONE
    instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] = _NONE


class AssignmentConfigs(NamedTuple):
    standby_replicas: int = 0
    rack_aware_tags: tuple[str, ...] = ()


TaskAssignor: TypeAlias = Callable[
    [Mapping[str, AssignedMember], ConfiguredTopology, AssignmentConfigs], dict[str, Tasks]
]
"""Maps members by id, and their topology, to the target assignment of each member."""
