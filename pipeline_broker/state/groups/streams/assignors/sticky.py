"""The assignor `sticky`: balances tasks over members, and leaves them where their state is.

1. A member keeps its previous active tasks, up to its share.
2. A task goes to a member with a standby, a warm-up, or offsets of it on disk, up to the share.
3. Other tasks go to the least loaded member of the least loaded process.
4. Standby tasks of stateful subtopologies follow in the same way. A process never has the same task twice.

A process with more members gets more tasks. A share is the rounded-up average of the members that are not full yet.

Counterpart in Kafka: `StickyTaskAssignor`. It breaks ties by the order of hash maps, this assignor by ids.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pipeline_broker.state.groups.streams.assignors.members import AssignedMember, AssignmentConfigs
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology
from pipeline_broker.state.groups.streams.tasks import TaskId, Tasks, grouped

__all__ = ["assign_sticky"]


def assign_sticky(
    members: Mapping[str, AssignedMember], topology: ConfiguredTopology, configs: AssignmentConfigs
) -> dict[str, Tasks]:
    """Assign every task once as active, and `standby_replicas` times as standby as far as other processes exist."""
    subtopologies = topology.subtopologies or ()
    tasks = [TaskId(part.id, index) for part in subtopologies for index in range(part.tasks)]
    stateful_ids = {part.id for part in subtopologies if part.is_stateful}
    stateful = [task for task in tasks if task.subtopology_id in stateful_ids]
    if not members:
        return {}
    plan = _Plan(members, len(tasks), len(tasks) + len(stateful) * configs.standby_replicas)
    plan.assign_active(tasks)
    if configs.standby_replicas:
        plan.assign_standby(stateful, configs.standby_replicas)
    return plan.result()


class _Quota:
    """The share of tasks of each member that is not full."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self._divide()

    def _divide(self) -> None:
        self.share = -(-self._tasks // self._members) if self._members else 0

    def count(self, tasks: int) -> None:
        """Count the tasks of a member that got another one: a full member leaves the average."""
        if tasks == self.share:
            self._members -= 1
            self._tasks -= tasks
            self._divide()


class _Member:
    def __init__(self, member_id: str, process: _Process) -> None:
        self.id = member_id
        self.process = process
        self.active: list[TaskId] = []
        self.standby: list[TaskId] = []

    @property
    def tasks(self) -> int:
        return len(self.active) + len(self.standby)


class _Process:
    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.tasks: set[TaskId] = set()

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.members)

    def least_loaded_member(self) -> _Member:
        return min(self.members, key=lambda member: member.tasks)


class _Holder(NamedTuple):
    """A member with state of a task, in the order of preference."""

    is_standby_now: bool
    offset: int
    member: _Member


class _Plan:
    """A partial assignment."""

    def __init__(self, members: Mapping[str, AssignedMember], active: int, total: int) -> None:
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(total, len(members))
        self._members: dict[str, _Member] = {}
        processes: dict[str, _Process] = {}
        self._owners: dict[TaskId, _Member] = {}
        holders: dict[TaskId, list[_Holder]] = {}
        for member_id, given in sorted(members.items()):
            process = processes.setdefault(given.process_id, _Process())
            member = self._members[member_id] = _Member(member_id, process)
            process.members.append(member)
            for task in _flat(given.assigned.active):
                self._owners[task] = member
            standby_now = {*_flat(given.assigned.standby), *_flat(given.assigned.warmup)}
            for task in standby_now:
                offset = given.task_offsets.get(task.subtopology_id, {}).get(task.partition, 0)
                holders.setdefault(task, []).append(_Holder(True, offset, member))
            for subtopology_id, offsets in given.task_offsets.items():
                for partition, offset in offsets.items():
                    task = TaskId(subtopology_id, partition)
                    if task not in standby_now:
                        holders.setdefault(task, []).append(_Holder(False, offset, member))
        self._processes = [process for _, process in sorted(processes.items())]
        self._holders = {
            task: [it.member for it in sorted(found, key=lambda it: (not it.is_standby_now, -it.offset))]
            for task, found in holders.items()
        }

    def assign_active(self, tasks: list[TaskId]) -> None:
        # By partition first: equal partitions of several subtopologies stay together when only some find a place.
        left = [task for task in sorted(tasks, key=_by_partition) if not self._keep(task, self._owners.get(task))]
        left = [task for task in left if not self._keep(task, self._holder_with_least_load(task))]
        queue = self._by_load()
        for task in sorted(left):
            load, index = heapq.heappop(queue)
            process = self._processes[index]
            self._add_active(task, process.least_loaded_member())
            heapq.heappush(queue, (process.load, index))

    def _keep(self, task: TaskId, member: _Member | None) -> bool:
        if member is None or member.tasks >= self._active_quota.share:
            return False
        self._add_active(task, member)
        return True

    def _add_active(self, task: TaskId, member: _Member) -> None:
        member.active.append(task)
        member.process.tasks.add(task)
        self._active_quota.count(member.tasks)
        self._quota.count(member.tasks)

    def _add_standby(self, task: TaskId, member: _Member) -> None:
        member.standby.append(task)
        member.process.tasks.add(task)
        self._quota.count(member.tasks)

    def _holder_with_least_load(self, task: TaskId) -> _Member | None:
        found: _Member | None = None
        for member in self._holders.get(task, ()):
            if task in member.process.tasks:
                continue
            if found is None or (member.process.load < found.process.load and member.tasks < found.tasks):
                found = member
        return found

    def assign_standby(self, tasks: list[TaskId], replicas: int) -> None:
        left: list[tuple[TaskId, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            missing = replicas
            while missing and (member := self._standby_of_before(task)):
                self._add_standby(task, member)
                missing -= 1
            left.append((task, missing))
        queue = self._by_load()
        for task, missing in sorted(left, reverse=True):
            for _ in range(missing):
                if not self._give_standby(task, queue):
                    break

    def _standby_of_before(self, task: TaskId) -> _Member | None:
        owner = self._owners.get(task)
        for member in (owner, self._holder_with_least_load(task)):
            if member and task not in member.process.tasks and member.tasks < self._quota.share:
                return member
        return None

    def _give_standby(self, task: TaskId, queue: list[tuple[float, int]]) -> bool:
        """Add a standby to the least loaded process without the task; return False if no such process exists."""
        skipped = []
        while queue and task in self._processes[queue[0][1]].tasks:
            skipped.append(heapq.heappop(queue))
        found = bool(queue)
        if found:
            _, index = heapq.heappop(queue)
            process = self._processes[index]
            self._add_standby(task, process.least_loaded_member())
            heapq.heappush(queue, (process.load, index))
        for entry in skipped:
            heapq.heappush(queue, entry)
        return found

    def _by_load(self) -> list[tuple[float, int]]:
        queue = [(process.load, index) for index, process in enumerate(self._processes)]
        heapq.heapify(queue)
        return queue

    def result(self) -> dict[str, Tasks]:
        return {
            member_id: Tasks(grouped(member.active), grouped(member.standby), {})
            for member_id, member in self._members.items()
        }


def _flat(tasks: Mapping[str, Iterable[int]]) -> Iterable[TaskId]:
    return (TaskId(subtopology_id, partition) for subtopology_id, found in tasks.items() for partition in found)


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task.partition, task.subtopology_id
