"""A state machine test of streams groups: joins, heartbeats, silence, leaves, changed topics and broker crashes.

Invariants:

* No task is active at two members, and the members of a process never share a task. Epochs never decrease.
* The shown group, a replayed group and a group replayed from compacted records equal the pending group.

After enough heartbeats, every task is active once, and each task with state has its standbys.
"""

from __future__ import annotations

import attrs
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.memory import ENTRY_BYTES
from pipeline_broker.state.groups.modern.member import LEAVING_STATIC_EPOCH, MemberState
from pipeline_broker.state.groups.modern.step import TimerKind
from pipeline_broker.state.groups.streams.group import StreamsGroup
from pipeline_broker.state.groups.streams.internal_topics import StreamsStatus
from pipeline_broker.state.groups.streams.tasks import NO_TASKS, TaskId, Tasks
from pipeline_broker.state.groups.streams.topology import Subtopology, TopicInfo, Topology
from pipeline_broker.state.outcome import StateRecord
from tests.crashes.lengths import examples
from tests.state.groups.streams.streams_driver import StreamsDriver, owned
from tests.state.replaying import replay_group

SETTINGS = BrokerConfig(group_streams_max_size=5)
SLOTS = st.integers(0, 4)
PROCESSES = ("p", "p", "q", "r", "q")  # by slot
TOPICS = ("ta", "tb", "words", "store")
TOPOLOGY = Topology(
    3,
    (
        Subtopology("0", ("ta", "tb"), repartition_sink_topics=("words",)),
        Subtopology(
            "1",
            repartition_source_topics=(TopicInfo("words", 0, 0),),
            state_changelog_topics=(TopicInfo("store", 0, 0),),
        ),
    ),
)
LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
SOFT = {"_offsets", "topics_version", "memory", "configured", "endpoint_epoch", "shutdown_member_id", "task_offsets"}
ROUNDS = 16


@attrs.define
class Client:
    """The state that a client keeps."""

    number: int
    instance_id: str | None
    life: int = 0
    epoch: int = -1
    tasks: Tasks = NO_TASKS
    silent: bool = False
    endpoint_epoch: int = -1

    @property
    def member_id(self) -> str:
        return f"m{self.number}-{self.life}"

    def lost(self) -> None:
        self.epoch, self.tasks = -1, NO_TASKS


def content(group: StreamsGroup) -> dict[str, object]:
    """The state of a group that its records contain."""
    return {field.name: getattr(group, field.name) for field in attrs.fields(StreamsGroup) if field.name not in SOFT}


class StreamsGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = StreamsDriver(SETTINGS, hold=True, topology=TOPOLOGY)
        self.clients = [Client(number, "i" if number == 2 else None) for number in range(5)]
        self.epoch = 0
        self.standbys = 0

    @initialize(
        interval_ms=st.sampled_from([0, 1_000]), delay_ms=st.sampled_from([0, 3_000]), standbys=st.integers(0, 2)
    )
    def configure(self, interval_ms: int, delay_ms: int, standbys: int) -> None:
        self.standbys = standbys
        self.driver.settings = attrs.evolve(
            SETTINGS,
            group_streams_assignment_interval_ms=interval_ms,
            group_streams_initial_rebalance_delay_ms=delay_ms,
            group_streams_num_standby_replicas=standbys,
        )
        self.driver.restart()
        self.driver.create("ta", 3)
        self.driver.create("tb", 2)

    def ask(self, client: Client, epoch: int, *, settle: bool = True, **more: object) -> object:
        answer = self.driver.beat(client.member_id, member_epoch=epoch, instance_id=client.instance_id, **more)
        if answer is None and settle:
            self.driver.settle()
            answer = list(self.driver.answers.values())[-1]
        return answer

    @rule(slot=SLOTS, endpoint=st.sampled_from([None, ("host", 1)]))
    def join(self, slot: int, endpoint: tuple[str, int] | None) -> None:
        client = self.clients[slot]
        group = self.live()
        if group is None or client.member_id not in group.members:
            client.lost()
        if client.epoch < 0 and client.instance_id is None:
            client.life += 1
        answer = self.ask(
            client,
            0,
            rebalance_timeout_ms=20_000,
            topology=TOPOLOGY,
            process_id=PROCESSES[slot],
            endpoint=endpoint,
            **owned(NO_TASKS),
        )
        if answer.error is ErrorCode.NONE:
            client.silent, client.tasks = False, NO_TASKS
        self.hear(client, answer)

    def hear(self, client: Client, answer: object) -> None:
        if answer.error in LOST:
            client.lost()
            return
        if answer.error is not ErrorCode.NONE:
            return
        assert answer.member_epoch >= client.epoch, "epochs of members never fall"
        client.epoch, client.endpoint_epoch = answer.member_epoch, answer.endpoint_epoch
        if answer.tasks is not None:
            client.tasks = answer.tasks
        for topic in answer.topics_to_create:
            assert {each.status for each in answer.statuses} >= {StreamsStatus.MISSING_INTERNAL_TOPICS}
            if self.driver.topics.latest(topic.name) is None:
                self.driver.create(topic.name, topic.partitions)

    @rule(slot=SLOTS)
    def beat(self, slot: int) -> None:
        client = self.clients[slot]
        if client.epoch == 0 and not client.silent:
            self.join(slot, None)
        elif client.epoch > 0 and not client.silent:
            more = {"endpoint_epoch": client.endpoint_epoch, **owned(client.tasks)}
            self.hear(client, self.ask(client, client.epoch, **more))

    @rule(slot=SLOTS)
    def response_is_lost(self, slot: int) -> None:
        """The broker acts, but the client does not learn the result, and joins again."""
        client = self.clients[slot]
        if client.epoch >= 0 and not client.silent:
            self.ask(client, client.epoch, **owned(client.tasks))
            if client.instance_id is None:
                client.epoch = 0

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        client = self.clients[slot]
        if client.epoch >= 0:
            self.ask(client, -1)
            client.lost()

    @rule()
    def leave_temporarily(self) -> None:
        client = self.clients[2]
        if client.epoch >= 0:
            answer = self.ask(client, LEAVING_STATIC_EPOCH)
            client.lost()
            if answer.error is ErrorCode.NONE:
                client.life += 1

    @rule(slot=SLOTS)
    def fall_silent(self, slot: int) -> None:
        self.clients[slot].silent = True

    @rule(delay_ms=st.sampled_from([500, 1_000, 3_000, 21_000, 46_000]))
    def tick(self, delay_ms: int) -> None:
        self.driver.settle()
        self.driver.tick(delay_ms)
        self.driver.settle()

    @rule(name=st.sampled_from(TOPICS), what=st.sampled_from(["create", "grow", "drop"]))
    def change_topic(self, name: str, what: str) -> None:
        topic = self.driver.topics.get(name)
        if what == "create" and topic is None:
            self.driver.create(name, 2)
        elif what == "grow" and topic is not None and topic.partitions < 5:
            self.driver.grow(name, topic.partitions + 1)
        elif what == "drop" and topic is not None:
            self.driver.drop(name)

    @rule()
    def delete(self) -> None:
        self.driver.settle()
        if self.driver.delete() is ErrorCode.NONE:
            self.driver.settle()
            self.epoch = 0

    @rule()
    def crash(self) -> None:
        """Pending records are lost; no client has seen their effects."""
        self.driver.restart()

    @rule(slot=SLOTS)
    def crash_before_it_is_durable(self, slot: int) -> None:
        client = self.clients[slot]
        if client.epoch >= 0 and not client.silent:
            answer = self.ask(client, client.epoch, settle=False, **owned(client.tasks))
            if answer is not None:
                self.hear(client, answer)
            self.driver.restart()

    @rule(slots=st.sets(SLOTS, min_size=1))
    def converge(self, slots: set[int]) -> None:
        """After silent members have expired and topics are right, the others have every task."""
        for name in TOPICS:
            if self.driver.topics.get(name) is not None:
                self.driver.drop(name)
        self.driver.create("ta", 3)
        self.driver.create("tb", 2)
        for number in range(ROUNDS + 46):
            for slot, client in enumerate(self.clients):
                if slot in slots and client.epoch < 0:
                    self.join(slot, None)
                elif slot in slots:
                    client.silent = False
                    self.beat(slot)
            self.driver.settle()
            self.driver.tick(1_000 if number < ROUNDS else 2_000)
            self.driver.settle()
        group = self.driver.group()
        live = [client for slot, client in enumerate(self.clients) if slot in slots and client.epoch >= 0]
        assert set(group.members) == {client.member_id for client in live}
        assert group.state_name == "Stable", content(group)
        tasks = [TaskId(part, number) for part in ("0", "1") for number in range(3)]
        active = [task for client in live for task in ids(client.tasks.active)]
        assert sorted(active) == tasks, "each once, and all"
        processes = {PROCESSES[slot] for slot in slots}
        standbys = [task for client in live for task in ids(client.tasks.standby)]
        assert len(standbys) == len(set(standbys)) * min(self.standbys, len(processes) - 1)
        assert {task.subtopology_id for task in standbys} <= {"1"}

    def live(self) -> StreamsGroup | None:
        group = self.driver.coordinator.registry.get("g")
        return group if isinstance(group, StreamsGroup) else None

    @invariant()
    def no_task_is_active_twice_and_no_process_has_a_task_twice(self) -> None:
        group = self.live()
        if group is None:
            return
        members = [client for client in self.clients if client.member_id in group.members and client.epoch >= 0]
        active = [task for client in members for task in ids(client.tasks.active)]
        assert len(active) == len(set(active))
        in_processes = [
            (group.members[client.member_id].metadata.process_id, task)
            for client in members
            for task in {task for role in client.tasks for task in ids(role)}
        ]
        assert len(in_processes) == len(set(in_processes))

    @invariant()
    def timers_are_those_of_the_members(self) -> None:
        """Each member has a session timer, and a rebalance timer if it must revoke tasks."""
        timers = {timer for timer in self.driver.coordinator.streams._deadlines._due_ms if timer.member_id}
        group = self.live()
        members = {} if group is None else group.members
        must_revoke = {
            member_id
            for member_id, it in members.items()
            if it.current.state is MemberState.UNREVOKED_PARTITIONS and it.current.member_epoch != LEAVING_STATIC_EPOCH
        }
        expected = {(TimerKind.SESSION, "g", each) for each in members}
        assert timers == expected | {(TimerKind.REBALANCE, "g", each) for each in must_revoke}

    @invariant()
    def the_epoch_never_decreases(self) -> None:
        group = self.driver.coordinator.registry.shown("g")
        epoch = 0 if group is None else group.epoch
        assert epoch >= self.epoch
        self.epoch = epoch
        if group is not None:
            assert group.assignment_epoch <= group.epoch

    @precondition(lambda self: not self.driver.pending)
    @invariant()
    def shown_and_replayed_groups_equal_the_pending_one(self) -> None:
        group = self.live()
        shown = self.driver.coordinator.registry.shown("g")
        compacted: dict[bytes, StateRecord] = {}
        for record in self.driver.journal:
            compacted.pop(record.key, None)  # the last of each key stays, at its place
            compacted[record.key] = record
        for records in (self.driver.journal, [record for record in compacted.values() if record.value is not None]):
            replayed = GroupCoordinator(self.driver.settings, self.driver.topics)
            for record in records:
                replay_group(replayed, record)
            found = replayed.registry.get("g")
            if group is None:
                assert found is None
                assert shown is None
            else:
                assert content(found) == content(group) == content(shown)
                offsets = ENTRY_BYTES * sum(kept.entries for kept in group.task_offsets.values())
                assert found.memory.count == group.memory.count - offsets == shown.memory.count


def ids(tasks: dict[str, frozenset[int]]) -> list[TaskId]:
    return [TaskId(subtopology_id, number) for subtopology_id, numbers in tasks.items() for number in numbers]


TestStreamsGroupMachine = StreamsGroupMachine.TestCase
TestStreamsGroupMachine.settings = hypothesis_settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
