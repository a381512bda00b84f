"""The assignor `sticky`: balances tasks over members, and leaves them where their state is.

1. A member keeps its previous active tasks, up to its share.
2. A task goes to a member with a standby of it, or with its offsets on disk, up to the share.
3. Other tasks go to the least loaded member of the least loaded process.
4. Standby tasks of stateful subtopologies follow in the same way. A process never has the same task twice.

A process with more members gets more tasks. A share is the rounded-up average of the members that are not full yet.
Of equal loads the lowest id is first; in Kafka, the order of hash maps decides.

Counterpart in Kafka: `StickyTaskAssignor`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from pipeline_broker.state.groups.streams.assignors.members import AssignedMember, AssignmentConfigs
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology
from pipeline_broker.state.groups.streams.tasks import TaskId, Tasks, grouped

__all__ = ["assign_sticky"]


def assign_sticky(
    members: Mapping[str, AssignedMember], topology: ConfiguredTopology, configs: AssignmentConfigs
) -> dict[str, Tasks]:
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
    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self._divide()

    def _divide(self) -> None:
        self.share = -(-self._tasks // self._members) if self._members else 0

    def count(self, tasks: int) -> None:
        # Of a member that got another task. A full member leaves the average.
        if tasks == self.share:
            self._members -= 1
            self._tasks -= tasks
            self._divide()


class _Member:
    def __init__(self, index: int, process: _Process) -> None:
        self.index = index
        self.process = process
        self.active: list[TaskId] = []
        self.standby: list[TaskId] = []

    @property
    def load(self) -> int:
        return len(self.active) + len(self.standby)


class _Process:
    def __init__(self, index: int) -> None:
        self.index = index
        self.members: list[_Member] = []
        self.tasks: set[TaskId] = set()
        self.by_load: ByLoad[_Member] | None = None

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.members)


_Loaded = TypeVar("_Loaded", _Member, _Process)


class ByLoad(Generic[_Loaded]):
    """A queue of processes or members, the least loaded first. Of equal loads the lowest index is first."""

    def __init__(self, items: Iterable[_Loaded]) -> None:
        self._heap: list[tuple[float, int, _Loaded]] = []
        for item in items:
            self.push(item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, item: _Loaded) -> None:
        heapq.heappush(self._heap, (item.load, item.index, item))

    def pop(self) -> _Loaded:
        return heapq.heappop(self._heap)[2]


class _Holder(NamedTuple):
    is_standby_now: bool
    offset: int
    member: _Member


class _Plan:
    """A partial assignment.

    Args:
        active: the number of active tasks.
        total: the number of active and standby tasks.
    """

    def __init__(self, members: Mapping[str, AssignedMember], active: int, total: int) -> None:
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(total, len(members))
        process_ids = sorted({given.process_id for given in members.values()})
        self._processes = {process_id: _Process(index) for index, process_id in enumerate(process_ids)}
        self._members: dict[str, _Member] = {}
        self._owners: dict[TaskId, _Member] = {}
        holders: dict[TaskId, list[_Holder]] = {}
        for index, (member_id, given) in enumerate(sorted(members.items())):
            process = self._processes[given.process_id]
            member = self._members[member_id] = _Member(index, process)
            process.members.append(member)
            self._owners.update((task, member) for task in _flat(given.assigned.active))
            for task, holder in _holders(given, member).items():
                holders.setdefault(task, []).append(holder)
        self._holders = {
            task: [it.member for it in sorted(found, key=lambda it: (not it.is_standby_now, -it.offset))]
            for task, found in holders.items()
        }

    def assign_active(self, tasks: list[TaskId]) -> None:
        # By partition first: equal partitions of several subtopologies stay together if not all find their place.
        left = [task for task in sorted(tasks, key=_by_partition) if not self._keep(task, self._owners.get(task))]
        left = [task for task in left if not self._keep(task, self._holder_with_least_load(task))]
        queue = ByLoad(self._processes.values())
        for task in sorted(left):
            process = queue.pop()
            self._add_to_least_loaded_member(process, task, is_active=True)
            queue.push(process)

    def _keep(self, task: TaskId, member: _Member | None) -> bool:
        if member is None or member.load >= self._active_quota.share:
            return False
        self._add(member, task, is_active=True)
        return True

    def _holder_with_least_load(self, task: TaskId) -> _Member | None:
        found: _Member | None = None
        for member in self._holders.get(task, ()):
            if task in member.process.tasks:
                continue
            if found is None or (member.process.load < found.process.load and member.load < found.load):
                found = member
        return found

    def assign_standby(self, tasks: list[TaskId], replicas: int) -> None:
        left: list[tuple[TaskId, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            missing = replicas
            while missing and (member := self._former_holder(task)):
                self._add(member, task, is_active=False)
                missing -= 1
            left.append((task, missing))
        queue = ByLoad(self._processes.values())
        for task, missing in sorted(left, reverse=True):
            for _ in range(missing):
                self._give_standby(task, queue)

    def _former_holder(self, task: TaskId) -> _Member | None:
        for member in (self._owners.get(task), self._holder_with_least_load(task)):
            if member and task not in member.process.tasks and member.load < self._quota.share:
                return member
        return None

    def _give_standby(self, task: TaskId, queue: ByLoad[_Process]) -> None:
        popped: list[_Process] = []
        while queue:
            process = queue.pop()
            popped.append(process)
            if task not in process.tasks:
                self._add_to_least_loaded_member(process, task, is_active=False)
                break
        for process in reversed(popped):
            queue.push(process)

    def _add_to_least_loaded_member(self, process: _Process, task: TaskId, *, is_active: bool) -> None:
        queue = process.by_load or ByLoad(process.members)
        member = queue.pop()
        self._add(member, task, is_active=is_active)
        queue.push(member)
        process.by_load = queue

    def _add(self, member: _Member, task: TaskId, *, is_active: bool) -> None:
        (member.active if is_active else member.standby).append(task)
        member.process.tasks.add(task)
        member.process.by_load = None
        if is_active:
            self._active_quota.count(member.load)
        self._quota.count(member.load)

    def result(self) -> dict[str, Tasks]:
        return {
            member_id: Tasks(grouped(member.active), grouped(member.standby), {})
            for member_id, member in self._members.items()
        }


def _holders(given: AssignedMember, member: _Member) -> dict[TaskId, _Holder]:
    found = {
        TaskId(subtopology_id, partition): _Holder(False, offset, member)
        for subtopology_id, offsets in given.task_offsets.items()
        for partition, offset in offsets.items()
    }
    for task in _flat(given.assigned.standby):
        found[task] = _Holder(True, found[task].offset if task in found else 0, member)
    return found


def _flat(tasks: Mapping[str, Iterable[int]]) -> Iterable[TaskId]:
    return (TaskId(subtopology_id, partition) for subtopology_id, found in tasks.items() for partition in found)


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task.partition, task.subtopology_id
