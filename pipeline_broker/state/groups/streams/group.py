"""A streams group: its topology, its epochs, its members and their tasks.

The state is derived and never stored:

    Empty         the group has no members
    NotReady      topics of the topology are missing or incorrectly partitioned
    Assigning     the target assignment is older than the group epoch
    Reconciling   a member has not reached the target assignment
    Stable        all members have reached it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self

import attrs

from pipeline_broker.state.groups.commits import PartitionCommit
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.memory import ENTRY_BYTES, size_of_names
from pipeline_broker.state.groups.modern.group import ModernGroup
from pipeline_broker.state.groups.modern.updates import Subjects
from pipeline_broker.state.groups.streams.assignors.members import Offsets
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology
from pipeline_broker.state.groups.streams.member import Member
from pipeline_broker.state.groups.streams.roles import Role, TaskKey
from pipeline_broker.state.groups.streams.topology import Topology
from pipeline_broker.state.groups.streams.updates import GroupEpoch, Subject

__all__ = ["NO_OFFSETS", "StreamsGroup", "TaskOffsets", "size_of"]

NO_EPOCH = GroupEpoch(0)
NO_TOPOLOGY_EPOCH = -1
OFFSETS_MAX = 20_000
"""Maximum number of task offsets of a group, which each assignment reads. Members get tasks without them, too."""


class TaskOffsets(NamedTuple):
    """The sums of changelog offsets of the tasks that a member has on disk, and of the ends of these changelogs."""

    offsets: Offsets
    end_offsets: Offsets

    @property
    def entries(self) -> int:
        return sum(len(tasks) for offsets in self for tasks in offsets.values())


NO_OFFSETS = TaskOffsets({}, {})


@attrs.define(eq=False)
class StreamsGroup(ModernGroup):
    """A group of the streams protocol.

    The last four attributes are lost on restart; only the pending group has them.

    Attributes:
        topology: None until a member has sent it.
        input: the input of assignments at the last group epoch.
        owners: by role, subtopology and task, the ids of the members that have it until they confirm its revocation.
        configured: `topology` on the topics of `topics_version`.
        endpoint_epoch: increases when the partitions of an endpoint change.
        shutdown_member_id: the member that requested the shutdown of the application.
        task_offsets: by member id; at most `OFFSETS_MAX` in the group.
    """

    MEMBER = Member
    SUBJECTS = Subjects(Subject.MEMBER, Subject.TARGET, Subject.CURRENT, Subject.TARGET_EPOCH)
    group_type: ClassVar[GroupType] = GroupType.STREAMS
    protocol_type_name: ClassVar[str] = "streams"

    epoch: int = 1  # of a new group, as in Kafka
    assignment_epoch: int = 1
    members: dict[str, Member] = attrs.Factory(dict)
    topology: Topology | None = None
    input: GroupEpoch = NO_EPOCH
    owners: dict[TaskKey, dict[int, tuple[str, ...]]] = attrs.Factory(dict)
    _subtopologies: dict[str, str] = attrs.Factory(dict)  # subtopology ids by source topic
    configured: ConfiguredTopology | None = None
    endpoint_epoch: int = 0
    shutdown_member_id: str | None = None
    task_offsets: dict[str, TaskOffsets] = attrs.Factory(dict)
    _offsets: int = 0

    def copy(self) -> Self:
        other = super().copy()
        other.owners = {key: dict(owners) for key, owners in self.owners.items()}
        return other

    def _apply_epoch(self, _: str, value: GroupEpoch | None) -> None:
        self.input = NO_EPOCH if value is None else value
        self.epoch, self.metadata_hash = self.input.epoch, self.input.metadata_hash

    def _apply_topology(self, _: str, value: Topology | None) -> None:
        for topology, sign in ((self.topology, -1), (value, 1)):
            if topology is not None:
                self.memory.add(sign * size_of(topology))
        self.topology, self.configured = value, None
        self._subtopologies = {
            name: part.id
            for part in (() if value is None else value.subtopologies)
            for name in (*part.source_topics, *(topic.name for topic in part.repartition_source_topics))
        }

    def apply_member(self, member_id: str, value: Any) -> None:
        super().apply_member(member_id, value)
        if value is None and member_id in self.task_offsets:
            self.keep_offsets(member_id, NO_OFFSETS)
        if not self.members:
            self.shutdown_member_id = None

    def own(self, member: Member) -> None:
        for key, tasks in _tasks_of(member):
            for task in tasks:
                owners = self.owners.setdefault(key, {})
                owners[task] = (*owners.get(task, ()), member.member_id)

    def disown(self, member: Member) -> None:
        for key, tasks in _tasks_of(member):
            owners = self.owners.get(key, {})
            for task in tasks:
                left = tuple(each for each in owners.get(task, ()) if each != member.member_id)
                if left:
                    owners[task] = left
                else:
                    owners.pop(task, None)
            if not owners:
                self.owners.pop(key, None)

    # Queries

    def keep_offsets(self, member_id: str, sent: TaskOffsets) -> None:
        """Replace the offsets of a member, or forget them if the group would have more than `OFFSETS_MAX`."""
        before, count = self.task_offsets.pop(member_id, NO_OFFSETS).entries, sent.entries
        if count and self._offsets - before + count <= OFFSETS_MAX:
            self.task_offsets[member_id] = sent
        else:
            count = 0
        self._offsets += count - before
        self.memory.add(ENTRY_BYTES * (count - before))

    # The interface `Group`, see `state/groups/group.py`

    @property
    def state_name(self) -> str:
        topology_epoch = NO_TOPOLOGY_EPOCH if self.topology is None else self.topology.epoch
        if self.members and (self.topology is None or topology_epoch != self.input.validated_topology_epoch):
            return "NotReady"
        return super().state_name

    def key_of(self, partition: PartitionCommit) -> TaskKey | None:
        subtopology_id = self._subtopologies.get(partition.topic)
        return None if subtopology_id is None else TaskKey(Role.ACTIVE, subtopology_id)

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and topic in self._subtopologies

    _APPLY: ClassVar[Mapping[Any, Callable[[Any, str, Any], None]]] = {
        Subject.GROUP_EPOCH: _apply_epoch,
        Subject.MEMBER: apply_member,
        Subject.TARGET_EPOCH: ModernGroup.apply_target_epoch,
        Subject.TARGET: ModernGroup.apply_target,
        Subject.CURRENT: ModernGroup.apply_current,
        Subject.TOPOLOGY: _apply_topology,
    }


def _tasks_of(member: Member) -> Iterator[tuple[TaskKey, Iterable[int]]]:
    return chain(member.current.assigned.items(), member.current.revoking.items())


def size_of(topology: Topology) -> int:
    """Return the memory that a topology takes in the pending and the durable group, in bytes."""
    texts = [
        text
        for part in topology.subtopologies
        for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
        for text in (topic.name, *chain.from_iterable(topic.configs))
    ]
    for part in topology.subtopologies:
        texts += (part.id, *part.source_topics, *part.repartition_sink_topics)
    groups = sum(len(part.copartition_groups) for part in topology.subtopologies)
    return 2 * (size_of_names(texts) + ENTRY_BYTES * groups)
