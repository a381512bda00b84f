"""Tasks of a topology, and the sets of tasks that a member has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

__all__ = ["NO_TASKS", "PartitionsBySubtopology", "TaskId", "Tasks", "grouped"]

PartitionsBySubtopology: TypeAlias = Mapping[str, frozenset[int]]
"""Partitions of tasks by subtopology id. Subtopologies without tasks are left out."""


class TaskId(NamedTuple):
    subtopology_id: str
    partition: int


class Tasks(NamedTuple):
    active: PartitionsBySubtopology
    standby: PartitionsBySubtopology
    warmup: PartitionsBySubtopology


NO_TASKS = Tasks({}, {}, {})


def grouped(tasks: Iterable[TaskId]) -> PartitionsBySubtopology:
    partitions: dict[str, set[int]] = {}
    for subtopology_id, partition in tasks:
        partitions.setdefault(subtopology_id, set()).add(partition)
    return {subtopology_id: frozenset(numbers) for subtopology_id, numbers in sorted(partitions.items())}
