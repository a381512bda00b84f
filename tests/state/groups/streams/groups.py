"""Drawn topologies and members for tests of task assignors."""

from hypothesis import strategies as st

from pipeline_broker.state.groups.streams.assignors.members import AssignedMember, AssignmentConfigs
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredSubtopology, ConfiguredTopology
from pipeline_broker.state.groups.streams.tasks import TaskId, Tasks, grouped
from pipeline_broker.state.groups.streams.topology import TopicInfo

ACTIVE, STANDBY, ON_DISK = "active", "standby", "on disk"


def topology(*sizes, stateful=()):
    """Return a topology of subtopologies "0", "1", ... with these numbers of tasks."""
    parts = []
    for index, size in enumerate(sizes):
        changelogs = (TopicInfo(f"log-{index}", size, -1),) if index in stateful else ()
        parts.append(ConfiguredSubtopology(str(index), size, (f"in-{index}",), (), (), changelogs))
    return ConfiguredTopology(0, tuple(parts), (), None)


@st.composite
def topologies(draw):
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    stateful = [index for index in range(len(sizes)) if draw(st.integers(0, 2))]
    return topology(*sizes, stateful=stateful)


@st.composite
def groups(draw):
    """Draw members with any previous tasks, among them tasks that no longer exist, and the topology and configs."""
    parts = draw(topologies())
    count = draw(st.integers(1, 7))
    # Java's hash maps of any size have the first of these letters in this order, and so the members.
    names = {}
    process_of = [names.setdefault(draw(st.integers(0, 3)), "hijkl"[len(names)]) for _ in range(count)]
    roles = [{role: [] for role in (ACTIVE, STANDBY)} for _ in range(count)]
    offsets = [{} for _ in range(count)]
    nobody_or_member = st.sampled_from([None, *range(count)])
    for part in parts.subtopologies:
        for number in range(part.tasks + draw(st.integers(0, 1))):
            task = TaskId(part.id, number)
            owner = draw(nobody_or_member)
            if owner is not None:
                roles[owner][ACTIVE].append(task)
            for holder in draw(st.sets(st.integers(0, count - 1), max_size=2)) - {owner}:
                role = draw(st.sampled_from([STANDBY, ON_DISK]))
                if role == STANDBY:
                    roles[holder][STANDBY].append(task)
                if role == ON_DISK or draw(st.booleans()):
                    offsets[holder].setdefault(part.id, {})[number] = draw(st.integers(0, 5))
    members = {
        f"m{index}": AssignedMember(
            process_of[index],
            Tasks(grouped(roles[index][ACTIVE]), grouped(roles[index][STANDBY]), {}),
            task_offsets=offsets[index],
        )
        for index in range(count)
    }
    return members, parts, AssignmentConfigs(standby_replicas=draw(st.sampled_from([1, 2, 0])))


def flat(tasks):
    return [TaskId(part, number) for part, numbers in tasks.items() for number in numbers]


def all_tasks(parts):
    return [TaskId(part.id, number) for part in parts.subtopologies for number in range(part.tasks)]


def stateful_tasks(parts):
    return [TaskId(part.id, number) for part in parts.subtopologies if part.is_stateful for number in range(part.tasks)]


def after(members, assigned):
    """Return the members with an assignment as their previous one."""
    return {
        member_id: member._replace(assigned=assigned.get(member_id, member.assigned))
        for member_id, member in members.items()
    }


def loads(members, assigned):
    """Return the tasks per member of each process."""
    sizes, tasks = {}, {}
    for member_id, member in members.items():
        sizes[member.process_id] = sizes.get(member.process_id, 0) + 1
        found = assigned[member_id]
        tasks[member.process_id] = tasks.get(member.process_id, 0) + len(flat(found.active)) + len(flat(found.standby))
    return {process: tasks[process] / size for process, size in sizes.items()}
