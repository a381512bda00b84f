"""Tasks by role and subtopology, the form in which members own and revoke them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from pipeline_broker.state.groups.streams.tasks import PartitionsBySubtopology, Tasks

__all__ = ["AssignedTasks", "OwnedTasks", "Role", "TaskKey", "assigned_tasks", "tasks_of"]


class Role(IntEnum):
    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


class TaskKey(NamedTuple):
    role: Role
    subtopology_id: str

    def every_role(self) -> list[TaskKey]:
        return [TaskKey(role, self.subtopology_id) for role in Role]


AssignedTasks: TypeAlias = Mapping[TaskKey, frozenset[int]]
OwnedTasks: TypeAlias = Mapping[TaskKey, Mapping[int, int]]
"""Tasks with the member epochs in which they were assigned; only those of active tasks count."""


def assigned_tasks(tasks: Tasks) -> dict[TaskKey, frozenset[int]]:
    return {
        TaskKey(role, subtopology_id): partitions
        for role, by_subtopology in zip(Role, tasks, strict=True)
        for subtopology_id, partitions in by_subtopology.items()
        if partitions
    }


def tasks_of(assigned: Mapping[TaskKey, Iterable[int]]) -> Tasks:
    return Tasks(*(_of_role(assigned, role) for role in Role))


def _of_role(assigned: Mapping[TaskKey, Iterable[int]], role: Role) -> PartitionsBySubtopology:
    return {key.subtopology_id: frozenset(tasks) for key, tasks in sorted(assigned.items()) if key.role is role}
