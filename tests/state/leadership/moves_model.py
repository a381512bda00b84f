"""A model checker for one partition in a small cluster. It visits all histories, breadth first.

The model has the journals, the log of metadata and the network. The values of the product decide for brokers and the
controller.

* A message to the controller may arrive late, again, or never.
* A process applies records of the metadata later than they were written. After a restart its former process continues
  as a zombie, whose journal belongs to the new one.
* The controller may want another leader, or no longer want it, at any time.
* The journal of the leader may be drained at any time: fenced, read, and reported.

In every state, the acknowledged records are those to which the latest record of the partition leads, every process that
may be read shows them, and at most one process can acknowledge another one. The model hands over a tuple of records
instead of an object.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.leadership.controller import Controller, Drained, HandOver
from pipeline_broker.state.leadership.nodes import Membership
from pipeline_broker.state.leadership.partitions import LocalPartition, Role
from pipeline_broker.state.leadership.records import NO_NODE, NodeRecord, OpenRecord, PartitionRecord
from pipeline_broker.state.leadership.reign import entries_that_count
from tests.exploration import explore

Handed = tuple[int, ...]


class Journal(NamedTuple):
    """The journal of a node: the generation that owns it, and its entries of the partition."""

    generation: int
    entries: tuple[OpenRecord | int, ...] = ()


class Process(NamedTuple):
    """A process of a node; `applied` counts the records of metadata that it has applied."""

    member: Membership
    partition: LocalPartition
    applied: int = 0


class Drain(NamedTuple):
    """A drain in progress: the journal is fenced under `generation`, or was read as `seen` before."""

    node_id: int
    generation: int
    seen: tuple[int, Handed] | None = None


class Left(NamedTuple):
    """The steps of each kind that may still happen."""

    writes: int = 2
    wishes: int = 1
    restarts: int = 1
    drains: int = 1


class World(NamedTuple):
    """A state of the whole cluster; `acknowledged` are the records that a producer relies on, in order."""

    metadata: tuple[NodeRecord | PartitionRecord, ...]
    journals: tuple[Journal, ...]
    processes: tuple[Process, ...]
    messages: frozenset[NodeRecord | HandOver | Drained]
    drains: frozenset[Drain]
    acknowledged: Handed
    left: Left

    @property
    def partition(self) -> PartitionRecord:
        return next(record for record in reversed(self.metadata) if isinstance(record, PartitionRecord))

    def node(self, node_id: int) -> NodeRecord:
        return next(
            record for record in reversed(self.metadata) if isinstance(record, NodeRecord) and record.node_id == node_id
        )

    def with_journal(self, node_id: int, journal: Journal) -> "World":
        return self._replace(journals=(*self.journals[:node_id], journal, *self.journals[node_id + 1 :]))

    def with_process(self, index: int, process: Process) -> "World":
        return self._replace(processes=(*self.processes[:index], process, *self.processes[index + 1 :]))

    def spent(self, kind: str) -> "World":
        return self._replace(left=self.left._replace(**{kind: getattr(self.left, kind) - 1}))


Steps = Iterator[tuple[str, World]]


@attrs.frozen(kw_only=True)
class Model:
    """The bounds of an exploration, and the rules under test.

    Attributes:
        left: the steps of each kind.
        nodes: their number.
        reads_before_fence: a drain reads the journal before it fences it.
        member, partition, controller, counts: of the product, or of a test that leaves a rule out.
    """

    left: Left = attrs.field(factory=Left)
    nodes: int = 2
    reads_before_fence: bool = False
    member: type[Membership] = Membership
    partition: type[LocalPartition] = LocalPartition
    controller: Controller = attrs.field(factory=Controller)
    counts: Callable[[Iterable[Any], int], Iterator[Any]] = entries_that_count
    states_max: int = 3_000_000

    def start(self) -> World:
        """Return a cluster whose nodes have asked to join, with a partition that node 0 leads."""
        nodes = range(self.nodes)
        return World(
            (*(NodeRecord(node, 1) for node in nodes), PartitionRecord(0, 0, tuple(nodes), NO_NODE, ())),
            (Journal(1),) * self.nodes,
            tuple(Process(self.member(node, 1), self.partition(handed=())) for node in nodes),
            frozenset(),
            frozenset(),
            (),
            self.left,
        )

    def explore(self) -> int:
        """Visit all reachable states, and return their number. AssertionError has the path to a bad one."""
        return explore(self.start(), self.steps, self.complaint, self.states_max)

    def complaint(self, world: World) -> str | None:
        partition = world.partition
        there = (*partition.handed, *self.counts(world.journals[partition.leader].entries, partition.epoch))
        if there != world.acknowledged:
            return f"{world.acknowledged} is acknowledged, {there} is there"
        able = [process for process in world.processes if self._is_able(world, process)]
        if sum(process.partition.may_append for process in able) > 1:
            return "two processes can acknowledge"
        for process in able:
            partition, entries = process.partition, world.journals[process.member.node_id].entries
            shown = (*partition.handed, *self.counts(entries, partition.epoch))
            if partition.may_read and shown != world.acknowledged:
                return f"{world.acknowledged} is acknowledged, a reader gets {shown}"
        return None

    def steps(self, world: World) -> Steps:
        for index, process in enumerate(world.processes):
            yield from self._process_steps(world, index, process)
        yield from self._wishes(world)
        for message in world.messages:
            yield from self._arrival(world, message)
        yield from self._drains(world)
        if world.left.restarts:
            for node_id in range(self.nodes):
                yield from self._restart(world, node_id)

    @staticmethod
    def _is_able(world: World, process: Process) -> bool:
        """Return whether the process writes its journal: it has joined, and is not fenced."""
        member = process.member
        return member.has_joined and world.journals[member.node_id].generation == member.generation

    def _process_steps(self, world: World, index: int, process: Process) -> Steps:
        member, partition = process.member, process.partition
        node_id, name = member.node_id, f"{member.node_id}.{member.generation}"
        if process.applied < len(world.metadata):
            record = world.metadata[process.applied]
            after = process._replace(applied=process.applied + 1)
            if isinstance(record, NodeRecord):
                after = after._replace(member=member.applied(record.node_id, record.generation))
            else:
                after = after._replace(partition=partition.applied(record, node_id))
            yield f"{name} applies {record}", world.with_process(index, after)
        if not self._is_able(world, process):
            return
        journal = world.journals[node_id]
        if partition.role is Role.OPENING:
            opened = journal._replace(entries=(*journal.entries, OpenRecord(partition.epoch)))
            after = process._replace(partition=partition.opened().loaded())
            yield f"{name} opens", world.with_journal(node_id, opened).with_process(index, after)
        if partition.may_append and world.left.writes:
            number = len(world.acknowledged) + 1
            written = world.with_journal(node_id, journal._replace(entries=(*journal.entries, number)))
            yield (
                f"{name} acknowledges {number}",
                written._replace(acknowledged=(*world.acknowledged, number)).spent("writes"),
            )
        if partition.role is Role.STOPPING:
            state = (*partition.handed, *self.counts(journal.entries, partition.epoch))
            message = HandOver(node_id, member.generation, partition.epoch, state)
            after = process._replace(partition=partition.settled())
            yield (
                f"{name} hands over {state}",
                world.with_process(index, after)._replace(messages=world.messages | {message}),
            )

    def _wishes(self, world: World) -> Steps:
        if world.left.wishes:
            for node_id in range(self.nodes):
                after = self.controller.want(world.partition, node_id)
                if after != world.partition:
                    yield f"{node_id} is wanted", _recorded(world, after).spent("wishes")

    def _arrival(self, world: World, message: NodeRecord | HandOver | Drained) -> Steps:
        known = world.node(message.node_id)
        living = {node_id for node_id in range(self.nodes) if node_id != message.node_id}
        if isinstance(message, NodeRecord):
            decided = self.controller.join(known, message)
        elif isinstance(message, HandOver):
            decided = self.controller.hand_over(world.partition, known, message, living | {message.node_id})
        else:
            decided = self.controller.drained(world.partition, known, message, living)
        if not isinstance(decided, ErrorCode):
            yield f"{message} arrives", _recorded(world, decided)

    def _drains(self, world: World) -> Steps:
        leader = world.partition.leader
        if world.left.drains and self.reads_before_fence:
            drain = Drain(leader, 0, self._seen(world, leader))
            yield f"{leader} is read", world._replace(drains=world.drains | {drain}).spent("drains")
        elif world.left.drains:
            fenced = _fenced(world, leader)
            drain = Drain(leader, fenced.journals[leader].generation)
            yield f"{leader} is fenced", fenced._replace(drains=world.drains | {drain}).spent("drains")
        for drain in world.drains:
            node_id, seen = drain.node_id, drain.seen
            after, generation = world._replace(drains=world.drains - {drain}), drain.generation
            if seen is not None:
                after = _fenced(after, node_id)
                generation = after.journals[node_id].generation
            elif world.partition.leader == node_id and world.journals[node_id].generation == generation:
                seen = self._seen(world, node_id)
            if seen is not None:
                report = Drained(node_id, generation, *seen)
                yield f"{node_id} is drained", after._replace(messages=world.messages | {report})

    def _seen(self, world: World, node_id: int) -> tuple[int, Handed]:
        partition = world.partition
        counted = self.counts(world.journals[node_id].entries, partition.epoch)
        return partition.epoch, (*partition.handed, *counted)

    def _restart(self, world: World, node_id: int) -> Steps:
        fenced = _fenced(world, node_id)
        generation = fenced.journals[node_id].generation
        process = Process(self.member(node_id, generation), self.partition(handed=()))
        after = fenced._replace(
            processes=(*world.processes, process), messages=world.messages | {NodeRecord(node_id, generation)}
        )
        yield f"{node_id} restarts as {generation}", after.spent("restarts")


def _recorded(world: World, record: NodeRecord | PartitionRecord) -> World:
    return world._replace(metadata=(*world.metadata, record))


def _fenced(world: World, node_id: int) -> World:
    journal = world.journals[node_id]
    return world.with_journal(node_id, journal._replace(generation=journal.generation + 1))
