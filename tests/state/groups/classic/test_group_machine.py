"""A state machine test of classic groups: joins, syncs, silence, leaves, restarts, a slow journal and crashes.

Invariants:

* A token is answered at most once, and is parked exactly while it is unanswered.
* A join phase gives all its members the same generation, and only the leader sees the members.
* Each member gets the assignment that the leader meant for it.
* No request is parked past a deadline.
* The durable records describe the same groups as the coordinator.
"""

from __future__ import annotations

import attrs
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.classic.classic_group import GroupState
from pipeline_broker.state.groups.classic.messages import (
    JoinResult,
    LeavingMember,
    MemberProtocol,
    SyncResult,
)
from pipeline_broker.state.groups.classic.turn import Timer, TimerKind
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.memory import GROUP_BYTES, MEMBER_BYTES, OFFSET_BYTES, size_of_names, sizes_of
from tests.crashes.lengths import examples
from tests.state.group_driver import Driver
from tests.state.groups.classic.test_subscription import subscription
from tests.state.replaying import replay_group

SETTINGS = BrokerConfig(group_max_size=4)
REBALANCE_MS_MAX = 30_000
SLOTS = st.integers(0, 3)
SUBSCRIPTIONS = [subscription(["t"]), subscription(["t", "u"]), b"no subscription"]


@attrs.define
class Client:
    """The state that a client keeps."""

    instance_id: str | None
    member_id: str = ""
    generation_id: int = -1
    leader: bool = False
    members: tuple[str, ...] = ()
    assigned: bool = False


@attrs.define
class Parked:
    """A parked request."""

    kind: str
    slot: int
    since_ms: int
    generation_id: int


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(SETTINGS, hold=True)
        self.clients = [Client(None), Client(None), Client("i"), Client(None)]
        self.parked: dict[str, Parked] = {}
        self.seen: set[str] = set()
        self.counter = 0
        self.settled_ms = self.driver.now_ms
        self.assigned: dict[tuple[int, int, str], set[bytes]] = {}  # by life, generation and member
        self.rounds: dict[tuple[int, int], tuple[str, str | None]] = {}
        self.life = 0

    @initialize(delay_ms=st.sampled_from([0, 3_000]))
    def configure(self, delay_ms: int) -> None:
        self.driver.settings = attrs.evolve(SETTINGS, group_initial_rebalance_delay_ms=delay_ms)
        self.driver.restart()

    def token(self, kind: str, slot: int) -> str:
        self.counter += 1
        token = f"{kind}-{self.counter}"
        self.parked[token] = Parked(kind, slot, self.driver.now_ms, self.clients[slot].generation_id)
        return token

    def read_answers(self) -> None:
        """Deliver new responses to the clients."""
        for token in list(self.driver.answers):
            if token in self.seen:
                continue
            self.seen.add(token)
            parked = self.parked.pop(token)
            client = self.clients[parked.slot]
            answer = self.driver.answers[token]
            if isinstance(answer, JoinResult):
                self.hear_join(client, answer)
            else:
                assert isinstance(answer, SyncResult)
                self.hear_sync(client, parked, answer)

    def hear_join(self, client: Client, answer: JoinResult) -> None:
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error is ErrorCode.NONE:
            members = tuple(member.member_id for member in answer.members)
            assert not members or answer.member_id in members
            if answer.member_id == answer.leader:
                assert members or answer.skip_assignment
            else:
                assert not members
            round_ = (self.life, answer.generation_id)
            assert self.rounds.setdefault(round_, (answer.protocol_name, None))[0] == answer.protocol_name
            client.member_id, client.generation_id = answer.member_id, answer.generation_id
            client.leader, client.members = bool(members) and not answer.skip_assignment, members
            client.assigned = False
        elif answer.error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
            client.member_id, client.generation_id, client.leader = "", -1, False

    def hear_sync(self, client: Client, parked: Parked, answer: SyncResult) -> None:
        if answer.error is ErrorCode.NONE and client.generation_id == parked.generation_id:
            meant = self.assigned.get((self.life, parked.generation_id, client.instance_id or client.member_id), set())
            assert answer.assignment == b"" or answer.assignment in meant
            client.assigned = True
        elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id, client.generation_id, client.leader = "", -1, False

    @rule(slots=st.lists(SLOTS, max_size=8), delay_ms=st.sampled_from([0, 3_000]), lag=st.booleans())
    def cooperate(self, slots: list[int], delay_ms: int, lag: bool) -> None:
        """Let each client take its next step: join, sync or heartbeat; rejoin if the broker asks for it."""
        for slot in slots:
            client = self.clients[slot]
            if any(parked.slot == slot for parked in self.parked.values()):
                continue
            if client.generation_id < 0:
                self.join(slot, SUBSCRIPTIONS[0], REBALANCE_MS_MAX)
            elif not client.assigned:
                self.sync(slot)
            elif self.beat(slot) is ErrorCode.REBALANCE_IN_PROGRESS:
                self.join(slot, SUBSCRIPTIONS[0], REBALANCE_MS_MAX)
        if not lag:
            self.settle()
        self.tick(delay_ms)

    @rule(slots=st.sets(SLOTS, min_size=1))
    def converge(self, slots: set[int]) -> None:
        """Let clients cooperate until all groups are settled; some clients may fall silent."""
        for _ in range(6):
            self.cooperate(sorted(slots), 3_000, lag=False)

    @rule(slot=SLOTS, metadata=st.sampled_from(SUBSCRIPTIONS), timeout=st.sampled_from([10_000, REBALANCE_MS_MAX]))
    def join(self, slot: int, metadata: bytes, timeout: int) -> None:
        client = self.clients[slot]
        names = ["range", "sticky"] if slot % 2 else ["sticky", "range"]
        self.driver.join(
            self.token("join", slot),
            client.member_id,
            group_instance_id=client.instance_id,
            rebalance_timeout_ms=timeout,
            protocols=tuple(MemberProtocol(name, metadata) for name in names),
            member_id_required=slot != 3,
            assignment_skippable=True,
        )
        self.read_answers()

    @rule(slot=SLOTS)
    def restart_client(self, slot: int) -> None:
        """The client loses its member id; a static member replaces its old one."""
        client = self.clients[slot]
        client.member_id, client.generation_id, client.leader = "", -1, False

    @rule(slot=SLOTS)
    def sync(self, slot: int) -> None:
        client = self.clients[slot]
        if not client.member_id:
            return
        assignments = {}
        if client.leader:
            self.counter += 1
            for member_id in client.members:
                assignments[member_id] = f"{member_id}/{self.counter}".encode()
                described = self.driver.coordinator.describe("g").members
                instance = {member.member_id: member.group_instance_id for member in described}.get(member_id)
                key = (self.life, client.generation_id, instance or member_id)
                self.assigned.setdefault(key, set()).add(assignments[member_id])
        self.driver.sync(
            self.token("sync", slot),
            client.member_id,
            client.generation_id,
            group_instance_id=client.instance_id,
            assignments=assignments,
        )
        self.read_answers()

    @rule(slot=SLOTS)
    def heartbeat(self, slot: int) -> None:
        self.beat(slot)

    def beat(self, slot: int) -> ErrorCode:
        client = self.clients[slot]
        error = self.driver.heartbeat(client.member_id, client.generation_id, group_instance_id=client.instance_id)
        if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
            client.member_id, client.generation_id, client.leader = "", -1, False
        return error

    @rule(slot=SLOTS)
    def commit(self, slot: int) -> None:
        client = self.clients[slot]
        request = CommitRequest(
            group_id="g",
            member_id=client.member_id,
            generation_id=client.generation_id,
            group_instance_id=client.instance_id,
            partitions=[PartitionCommit(topic="t", partition=slot, offset=self.counter)],
        )
        result = self.driver.coordinator.commit(request, self.driver.now_ms)
        assert (result.write is not None) == (result.errors == (ErrorCode.NONE,))
        if result.write is not None:
            self.driver.pending.append(result.write)

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        client = self.clients[slot]
        self.driver.leave(LeavingMember(client.member_id, client.instance_id))
        self.read_answers()
        client.member_id, client.generation_id, client.leader = "", -1, False

    @rule(delay_ms=st.sampled_from([1_000, 3_000, 9_000, 31_000, 310_000]))
    def tick(self, delay_ms: int) -> None:
        if self.driver.pending:
            delay_ms = min(delay_ms, 1_000)  # a commit takes milliseconds, not minutes
        self.driver.tick(delay_ms)
        self.read_answers()
        if self.driver.state == "Dead":  # an empty group without offsets expires
            self.life += 1

    @rule()
    def settle(self) -> None:
        self.driver.settle()
        self.settled_ms = self.driver.now_ms
        self.read_answers()

    @precondition(lambda self: self.driver.state == "Empty" and self.counter % 3 == 0)
    @rule(lag=st.booleans())
    def delete(self, lag: bool) -> None:
        self.driver.delete()
        self.life += 1  # generations start over
        if not lag:
            self.settle()

    def forget_lives(self) -> None:
        self.life += 1
        self.parked.clear()
        self.driver.answers.clear()
        self.seen.clear()

    @precondition(lambda self: self.driver.pending)
    @rule()
    def fail_and_stop(self) -> None:
        """A commit fails: all requests that wait for it are answered, later ones fail too, and the broker stops."""
        self.driver.settle(ErrorCode.KAFKA_STORAGE_ERROR)
        self.read_answers()
        self.parked_tokens_are_the_unanswered_ones()
        self.driver.restart()
        self.forget_lives()
        self.check_generations()

    @rule()
    def crash(self) -> None:
        self.driver.restart()
        self.forget_lives()
        self.check_generations()

    def check_generations(self) -> None:
        """After a restart, assignments of the stable generation equal those of the records."""
        for member in self.driver.coordinator.describe("g").members:
            for (_, generation, name), meant in list(self.assigned.items()):
                if name in {member.member_id, member.group_instance_id}:
                    self.assigned.setdefault((self.life, generation, name), set()).update(meant)

    @invariant()
    def parked_tokens_are_the_unanswered_ones(self) -> None:
        """The parked tokens of the coordinator are exactly the unanswered ones."""
        parked = [
            token
            for group in self.driver.coordinator.registry.all()
            for token in (*group.parked_joins.values(), *group.parked_syncs.values())
        ]
        assert sorted(parked) == sorted(self.parked)

    @invariant()
    def no_request_waits_past_its_deadline(self) -> None:
        if self.driver.pending:
            return
        for parked in self.parked.values():
            since_ms = max(parked.since_ms, self.settled_ms)
            assert self.driver.now_ms - since_ms <= REBALANCE_MS_MAX + 3_000, parked

    @invariant()
    def records_match_the_coordinator(self) -> None:
        if self.driver.pending:
            return
        replayed = GroupCoordinator(self.driver.settings)
        for record in self.driver.journal:
            replay_group(replayed, record)
        live = self.driver.coordinator
        for group in live.list_groups({"stable", "empty"}):
            assert replayed.describe(group.group_id) == live.describe(group.group_id)
        by_partition = {found.partition: found.committed for found in live.fetch("g")}
        assert {found.partition: found.committed for found in replayed.fetch("g")} == by_partition

    @invariant()
    def members_are_consistent(self) -> None:
        for group in self.driver.coordinator.registry.all():
            assert (group.leader in group.members) if group.members else group.leader is None
            assert set(group.parked_joins) <= set(group.members)
            assert set(group.parked_syncs) <= set(group.members)
            assert set(group.pending_syncs) <= set(group.members)
            assert not group.pending_joins & set(group.members)
            static = {
                member.group_instance_id: member.member_id
                for member in group.members.values()
                if member.group_instance_id is not None
            }
            assert static == group.static_members
            if group.state.value in {"Empty", "Dead"}:
                assert not group.members
            if group.parked_syncs:
                assert group.state.value == "CompletingRebalance"
            assert len(group.parked_joins) <= SETTINGS.group_max_size

    @invariant()
    def timers_are_those_of_the_state(self) -> None:
        """Timers exist only for members, for pending ids and for the phase of a group."""
        timers = set(self.driver.coordinator.classic._deadlines._due_ms)
        expected = set()
        for group in self.driver.coordinator.registry.all():
            sessions = {timer.member_id for timer in timers if timer[:2] == (TimerKind.SESSION, group.group_id)}
            waiting = set(group.parked_joins) | set(group.parked_syncs)
            assert (set(group.members) | group.pending_joins) - waiting <= sessions
            assert sessions <= set(group.members) | group.pending_joins
            expected |= {Timer(TimerKind.SESSION, group.group_id, member_id) for member_id in sessions}
            phases = {kind for kind in TimerKind if Timer(kind, group.group_id) in timers}
            joining = phases & {TimerKind.JOIN, TimerKind.INITIAL_DELAY}
            assert len(joining) == (group.state is GroupState.PREPARING_REBALANCE)
            assert (TimerKind.SYNC in phases) == bool(group.pending_syncs)
            expected |= {Timer(kind, group.group_id) for kind in phases}
        assert timers == expected

    @invariant()
    def memory_matches_the_groups(self) -> None:
        coordinator = self.driver.coordinator
        total = 0
        for group in coordinator.registry.all():
            pending = MEMBER_BYTES * len(group.pending_joins) + sizes_of(group.pending_joins)
            members = sum(member.size_bytes for member in group.members.values())
            assert group.memory.count == pending + members + size_of_names(group.topics or ())
            total += group.memory.count + GROUP_BYTES + sizes_of([group.group_id])
        offsets = [topic for topics in coordinator._offsets._groups.values() for topic in topics.items()]
        total += sum(
            OFFSET_BYTES + sizes_of([topic, committed.metadata])
            for topic, partitions in offsets
            for committed in partitions.values()
        )
        assert coordinator.memory.bytes_held == total


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = hypothesis_settings(max_examples=examples(120), stateful_step_count=30, deadline=None)
