"""A state machine test of consumer groups: joins, heartbeats, silence, leaves, changed topics and broker crashes.

Invariants:

* No partition has two owners, and epochs never decrease.
* Responses and descriptions contain only durable state.
* The shown group, a replayed group and a group replayed from compacted records equal the pending group.

After enough heartbeats, every partition is assigned.
"""

from __future__ import annotations

import attrs
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.modern.member import LEAVING_STATIC_EPOCH, MemberState
from pipeline_broker.state.groups.modern.step import TimerKind
from pipeline_broker.state.outcome import StateRecord
from tests.crashes.lengths import examples
from tests.state.groups.consumer.consumer_driver import ConsumerDriver
from tests.state.replaying import replay_group

SETTINGS = BrokerConfig(group_consumer_max_size=4)
SLOTS = st.integers(0, 3)
TOPICS = ("ta", "tb", "other")
SUBSCRIPTIONS = st.sampled_from([{"ta"}, {"ta", "tb"}, {"tb"}, {"other", "ta"}, set(), "t.", "o.*|ta"])
LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
ROUNDS = 12


@attrs.define
class Client:
    """The state that a client keeps; `owned` is by topic id."""

    number: int
    instance_id: str | None
    life: int = 0
    epoch: int = -1
    owned: dict[bytes, frozenset[int]] = attrs.Factory(dict)
    names: frozenset[str] | None = None
    regex: str | None = None
    silent: bool = False
    unsure: bool = False

    def says(self) -> dict[str, object]:
        """Return the fields of a heartbeat beside the epoch: all of them if a response was lost."""
        more: dict[str, object] = {"owned": self.owned}
        if self.unsure:
            names = self.names if self.names is not None or self.regex else frozenset()
            more |= {"rebalance_timeout_ms": 20_000, "topic_names": names, "topic_regex": self.regex}
        return more

    @property
    def member_id(self) -> str:
        return f"m{self.number}-{self.life}"

    def lost(self) -> None:
        self.epoch, self.owned = -1, {}


def content(group: ConsumerGroup) -> dict[str, object]:
    """The state of a group that its records contain."""
    hidden = {"topics_version", "is_deleted", "memory"}
    said = {field.name: getattr(group, field.name) for field in attrs.fields(ConsumerGroup) if field.name not in hidden}
    return said | {"memory": group.memory.count}


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = ConsumerDriver(SETTINGS, hold=True)
        self.clients = [Client(number, "i" if number == 2 else None) for number in range(4)]
        self.epoch = 0
        self.told: dict[str, int] = {}

    @initialize(interval_ms=st.sampled_from([0, 1_000]), assignor=st.sampled_from(["uniform", "range"]))
    def configure(self, interval_ms: int, assignor: str) -> None:
        names = (assignor, *({"uniform", "range"} - {assignor}))
        self.driver.settings = attrs.evolve(
            SETTINGS, group_consumer_assignment_interval_ms=interval_ms, group_consumer_assignors=names
        )
        self.driver.restart()
        self.driver.create("ta", 3)
        self.driver.create("tb", 2)

    def ask(self, client: Client, epoch: int, *, settle: bool = True, **more: object) -> object:
        token_count = len(self.driver.answers)
        answer = self.driver.beat(client.member_id, member_epoch=epoch, instance_id=client.instance_id, **more)
        if answer is None and settle:
            self.driver.settle()
            answer = list(self.driver.answers.values())[-1]
            assert len(self.driver.answers) > token_count
        return answer

    @rule(slot=SLOTS, wanted=SUBSCRIPTIONS, assignor=st.sampled_from([None, "range"]))
    def join(self, slot: int, wanted: set[str] | str, assignor: str | None) -> None:
        client = self.clients[slot]
        group = self.live()
        if group is None or client.member_id not in group.members:
            client.lost()  # the group may have been deleted since; its epochs start over
        if client.epoch < 0 and client.instance_id is None:
            client.life += 1
        before = client.names, client.regex, client.owned
        client.names = frozenset(wanted) if isinstance(wanted, set) else None
        client.regex = None if isinstance(wanted, set) else wanted
        client.owned, client.silent = {}, False
        names = client.names if client.names is not None or client.regex else frozenset()
        answer = self.ask(
            client,
            0,
            rebalance_timeout_ms=20_000,
            owned={},
            topic_names=names,
            topic_regex=client.regex,
            server_assignor=assignor,
        )
        self.hear(client, answer)
        if answer.error is not ErrorCode.NONE and client.epoch >= 0:  # refused: the member is unchanged
            client.names, client.regex, client.owned = before

    def hear(self, client: Client, answer: object) -> None:
        if answer.error in LOST:
            client.lost()
            return
        if answer.error is not ErrorCode.NONE:
            return
        assert answer.member_epoch >= client.epoch, "epochs of members never fall"
        client.epoch = answer.member_epoch
        client.unsure = False
        if answer.assignment is not None:
            client.owned = dict(answer.assignment)

    @rule(slot=SLOTS)
    def beat(self, slot: int) -> None:
        client = self.clients[slot]
        if client.epoch >= 0 and not client.silent:
            self.hear(client, self.ask(client, client.epoch, **client.says()))

    @rule(slot=SLOTS)
    def response_is_lost(self, slot: int) -> None:
        """The broker acts, but the client does not learn the result."""
        client = self.clients[slot]
        if client.epoch >= 0 and not client.silent:
            self.ask(client, client.epoch, **client.says())
            client.unsure = True

    @rule(slot=SLOTS, wanted=st.sampled_from([{"ta"}, {"tb"}, {"ta", "tb"}]))
    def subscribe(self, slot: int, wanted: set[str]) -> None:
        client = self.clients[slot]
        if client.epoch >= 0 and not client.silent:
            client.names, client.regex = frozenset(wanted), None
            self.hear(
                client,
                self.ask(client, client.epoch, **client.says() | {"topic_names": client.names, "topic_regex": ""}),
            )

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
            answer = self.ask(client, -2)
            client.lost()
            if answer.error is ErrorCode.NONE:
                client.life += 1

    @rule(slot=SLOTS)
    def fall_silent(self, slot: int) -> None:
        self.clients[slot].silent = True

    @rule(delay_ms=st.sampled_from([500, 1_000, 21_000, 46_000]))
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
            answer = self.ask(client, client.epoch, **client.says(), settle=False)
            client.unsure = True
            if answer is not None:
                self.hear(client, answer)
            self.driver.restart()

    @rule(slots=st.sets(SLOTS, min_size=1))
    def converge(self, slots: set[int]) -> None:
        """After silent members have expired, the others own every partition that they subscribe to."""
        for number in range(ROUNDS + 46):
            for slot, client in enumerate(self.clients):
                if slot in slots and client.epoch < 0:
                    self.join(slot, {"ta", "tb"}, None)
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
        wanted = {
            (topic.topic_id, partition)
            for topic in self.driver.topics.all()
            if topic.name in group.subscribed_topics
            for partition in range(topic.partitions)
        }
        assert sorted(self.owned_by(live)) == sorted(wanted), "each once, and all"

    @staticmethod
    def owned_by(clients: list[Client]) -> list[tuple[bytes, int]]:
        return [
            (topic_id, partition)
            for client in clients
            for topic_id, partitions in client.owned.items()
            for partition in partitions
        ]

    def live(self) -> ConsumerGroup | None:
        group = self.driver.coordinator.registry.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.live()
        if group is None:
            return
        members = [client for client in self.clients if client.member_id in group.members and client.epoch >= 0]
        owned = self.owned_by(members)
        assert len(owned) == len(set(owned))

    @invariant()
    def timers_are_those_of_the_members(self) -> None:
        """Each member has a session timer, and a rebalance timer if it must revoke partitions. No other timers
        exist.
        """
        timers = set(self.driver.coordinator.consumer._deadlines._due_ms)
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


TestConsumerGroupMachine = ConsumerGroupMachine.TestCase
TestConsumerGroupMachine.settings = hypothesis_settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None
)
