"""The topic catalogue: Kafka's errors, and a model with a journal that lags and crashes."""

from __future__ import annotations

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.errors import CorruptStateRecordError, MisplacedRecordError
from pipeline_broker.state.internal_topics import METADATA_TOPIC
from pipeline_broker.state.metadata_records import (
    METADATA_TOPIC_ID,
    Topic,
    read_topic,
    topic_name,
    topic_record,
)
from pipeline_broker.state.placed_partitions import OneBroker
from pipeline_broker.state.topic_rules import PARTITIONS_MAX, TopicError
from pipeline_broker.state.topics import NewTopic, TopicCatalogue, duplicates
from tests.crashes.lengths import examples

ID = bytes(range(16))
INVALID_NAME = ErrorCode.INVALID_TOPIC_EXCEPTION
BAD_PLACE = ErrorCode.INVALID_REPLICA_ASSIGNMENT


def catalogue():
    return TopicCatalogue(partitions_default=3, placement=OneBroker(1))


def created(made, name, **more):
    write = made.create(NewTopic(**{"topic_id": ID} | {"name": name} | more))
    made.durable(write)
    return made.get(name)


def test_pending_changes_of_settings_add_up():
    made = catalogue()
    created(made, "a")
    writes = [made.alter_configs("a", {name: "1"}) for name in "kl"]
    for write in writes:
        made.durable(write)
    assert made.get("a").configs == {"k": "1", "l": "1"}


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ({"name": ""}, INVALID_NAME, "Topic name is invalid: the empty string is not allowed"),
        ({"name": "."}, INVALID_NAME, "Topic name is invalid: '.' is not allowed"),
        ({"name": ".."}, INVALID_NAME, "Topic name is invalid: '..' is not allowed"),
        ({"name": "x" * 250}, INVALID_NAME, "longer than the max allowed length 249"),
        ({"name": "a b"}, INVALID_NAME, "'a b' contains one or more characters other than ASCII alphanumerics"),
        ({"name": "a\n"}, INVALID_NAME, "contains one or more characters other than ASCII alphanumerics"),
        ({"name": "ä"}, INVALID_NAME, "contains one or more characters other than ASCII alphanumerics"),
        ({"name": METADATA_TOPIC}, ErrorCode.INVALID_REQUEST, f"internal topic {METADATA_TOPIC} is prohibited"),
        ({"name": "a.b"}, ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists."),
        ({"name": "a_b"}, INVALID_NAME, "Topic 'a_b' collides with existing topic: a.b"),
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        ({"partitions": 2**31 - 1}, ErrorCode.INVALID_PARTITIONS, "above the limit of this broker"),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0, or -1"),
        ({"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0, or -1"),
        ({"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker(s) are registered"),
        ({"assignments": [(0, [1])], "partitions": 1}, ErrorCode.INVALID_REQUEST, "numPartitions was not set to -1"),
        (
            {"assignments": [(0, [1])], "replication_factor": 1},
            ErrorCode.INVALID_REQUEST,
            "replication factor was not set to -1",
        ),
        ({"assignments": [(0, [1]), (0, [1])]}, BAD_PLACE, "multiple manual partition assignments for partition 0"),
        ({"assignments": [(0, [1]), (2, [1])]}, BAD_PLACE, "consecutive 0-based integer sequence"),
        ({"assignments": [(0, [])]}, BAD_PLACE, "empty replica list"),
        ({"assignments": [(0, [1, 1])]}, BAD_PLACE, "includes the broker 1 more than once"),
        ({"assignments": [(0, [2])]}, BAD_PLACE, "includes broker 2, but no such broker is registered"),
    ],
)
def test_invalid_topics_are_rejected(more, code, message) -> None:
    made = catalogue()
    created(made, "a.b")
    with pytest.raises(TopicError) as refused:
        made.create(NewTopic(**{"name": "new", "topic_id": ID} | more))
    assert refused.value.code is code
    assert message in refused.value.message
    assert len(made) == 1


def test_defaults_and_manual_assignments() -> None:
    """-1 means the default number of partitions; a manual assignment determines its own."""
    made = catalogue()
    assert created(made, "a").partitions == 3
    assert created(made, "b", topic_id=ID[::-1], assignments=[(1, [1]), (0, [1])]).partitions == 2
    assert created(made, "most", topic_id=bytes(15) + b"m", partitions=PARTITIONS_MAX).partitions == PARTITIONS_MAX
    assert created(made, "x" * 249, topic_id=bytes(15) + b"x", replication_factor=1, partitions=7).partitions == 7


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (3, None, ErrorCode.INVALID_PARTITIONS),
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (10_001, None, ErrorCode.INVALID_PARTITIONS),
        (5, [[1]], BAD_PLACE),
        (4, [[7]], BAD_PLACE),
    ],
)
def test_invalid_growth_is_rejected(count, assignments, code) -> None:
    """A topic only grows, and a manual assignment covers each new partition."""
    made = catalogue()
    created(made, "a")
    with pytest.raises(TopicError) as refused:
        made.add_partitions("a", count, assignments)
    assert refused.value.code is code


def test_manual_assignments_are_limited_like_partition_counts() -> None:
    made = catalogue()
    placed = [(number, [1]) for number in range(PARTITIONS_MAX + 1)]
    with pytest.raises(TopicError) as refused:
        made.create(NewTopic(name="t", topic_id=ID, assignments=placed))
    assert refused.value.code is ErrorCode.INVALID_PARTITIONS


def test_all_topics_together_have_a_bound() -> None:
    made = catalogue()
    created(made, "t", partitions=3)
    made.check_room(2, 5)
    with pytest.raises(TopicError) as refused:
        made.check_room(3, 5)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert "has 3 partitions; with 3 more it would have more than 5" in refused.value.message


def test_changes_of_an_unknown_topic() -> None:
    made = catalogue()
    for change in (
        lambda: made.delete("a"),
        lambda: made.add_partitions("a", 5),
        lambda: made.alter_configs("a", {}),
    ):
        with pytest.raises(TopicError) as refused:
            change()
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_name_that_is_being_deleted_can_be_created_again() -> None:
    """The journal keeps the order; a colliding name must wait for the deletion."""
    made = catalogue()
    created(made, "a.b")
    delete = made.delete("a.b")
    with pytest.raises(TopicError):
        made.create(NewTopic(name="a_b", topic_id=ID))
    again = made.create(NewTopic(name="a.b", topic_id=ID[::-1]))
    assert made.durable(delete).after is None
    assert made.get("a.b") is None
    made.durable(again)
    assert made.by_id(ID) is None
    assert made.by_id(ID[::-1]).name == "a.b"


def test_a_failed_deletion_keeps_the_topic() -> None:
    made = catalogue()
    topic = created(made, "t", partitions=3)
    made.failed(made.delete("t"))
    assert (made.latest("t"), made.get("t"), made.partitions) == (topic, topic, 3)
    made.durable(made.delete("t"))
    assert (made.latest("t"), made.get("t"), made.partitions) == (None, None, 0)


def test_duplicates_of_a_request() -> None:
    assert duplicates(["a", "b", "a", "c", "c"]) == {"a", "c"}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        b"\0\1{}",
        b"\0\0{",
        b"\0\0[]",
        b"\0\0{}",
        b'\0\0{"id":"00","partitions":1,"configs":{}}',
        topic_record(Topic("a", ID, 1, {"retention.ms": "x"})).value,
    ],
)
def test_corrupt_values(value) -> None:
    with pytest.raises(CorruptStateRecordError):
        read_topic("a", value)
    with pytest.raises(CorruptStateRecordError):
        topic_name(b"\0")


@pytest.mark.parametrize(
    "other",
    [Topic("b", ID, 1, {}), Topic(METADATA_TOPIC, bytes(15) + b"x", 1, {}), Topic("b", METADATA_TOPIC_ID, 1, {})],
    ids=["id of another", "name of the metadata", "id of the metadata"],
)
def test_a_record_with_the_name_or_id_of_another_topic_is_rejected(other: Topic) -> None:
    made = catalogue()
    for topic in (Topic("a", ID, 1, {}), Topic("a", ID, 2, {})):  # a record of a name follows another one
        made.replay(topic_record(topic).key, topic_record(topic).value)
    with pytest.raises(MisplacedRecordError):
        made.replay(topic_record(other).key, topic_record(other).value)
    assert [topic.partitions for topic in made.all()] == [2]
    change = made.replay(topic_record(Topic("a", ID, 2, {})).key, None)
    assert (change.before, change.after) == (Topic("a", ID, 2, {}), None)
    assert (made.by_id(ID), made.get("a")) == (None, None)


def test_record_round_trip() -> None:
    topic = Topic("a", ID, 3, {"retention.ms": "1"})
    record = topic_record(topic)
    assert read_topic(topic_name(record.key), record.value) == topic
    assert topic_name(b"\0\2") is None


def test_a_name_collides_with_a_topic_until_its_deletion_is_durable() -> None:
    made = catalogue()

    def new(name):
        return NewTopic(name=name, topic_id=len(name).to_bytes(16) if name == "a.b" else ID, partitions=1, configs={})

    comes, goes = made.create(new("a.b")), made.delete("a.b")
    made.create(new("a_b"))
    made.durable(comes)
    made.delete("a_b")
    with pytest.raises(TopicError, match="collides with existing topic"):
        made.check_create(new("a_b"))
    made.durable(goes)
    made.check_create(new("a_b"))


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.made = catalogue()
        self.durable: dict[str, Topic] = {}
        self.latest: dict[str, Topic] = {}
        self.pending: list = []
        self.journal: list = []
        self.ids = 1  # which is the id of the metadata partition

    def attempt(self, allowed, change, name, after) -> None:
        try:
            write = change()
        except TopicError:
            assert not allowed
            return
        assert allowed
        self.pending.append((write, name, after))
        if after is None:
            del self.latest[name]
        else:
            self.latest[name] = after

    @rule(name=st.sampled_from(["a.b", "a_b", "c"]), partitions=st.sampled_from([-1, 1, 5]))
    def create(self, name, partitions) -> None:
        self.ids += 1
        topic_id = self.ids.to_bytes(16)
        collides = {"a.b": "a_b", "a_b": "a.b"}.get(name)
        allowed = name not in self.latest and collides not in self.latest and collides not in self.durable
        topic = Topic(name, topic_id, 3 if partitions == -1 else partitions, {"x": "y"})
        new = NewTopic(name=name, topic_id=topic_id, partitions=partitions, configs={"x": "y"})
        self.attempt(allowed, lambda: self.made.create(new), name, topic)

    @rule(name=st.sampled_from(["a.b", "a_b", "c"]))
    def delete(self, name) -> None:
        self.attempt(name in self.latest, lambda: self.made.delete(name), name, None)

    @rule(name=st.sampled_from(["a.b", "c"]), count=st.integers(1, 8))
    def grow(self, name, count) -> None:
        topic = self.latest.get(name)
        allowed = topic is not None and count > topic.partitions
        after = Topic(name, topic.topic_id, count, topic.configs) if topic else None
        self.attempt(allowed, lambda: self.made.add_partitions(name, count), name, after)

    @rule(name=st.sampled_from(["a.b", "c"]), value=st.sampled_from([None, "1", "2"]))
    def alter(self, name, value) -> None:
        topic = self.latest.get(name)
        configs = {} if topic is None else {**topic.configs, "k": value}
        configs = {key: kept for key, kept in configs.items() if kept is not None}
        after = Topic(name, topic.topic_id, topic.partitions, configs) if topic else None
        self.attempt(topic is not None, lambda: self.made.alter_configs(name, {"k": value}), name, after)

    @rule(count=st.integers(1, 3))
    def settle(self, count) -> None:
        for write, name, after in self.pending[:count]:
            change = self.made.durable(write)
            assert (change.before, change.after) == (self.durable.get(name), after)
            self.journal += write.records
            self.durable.pop(name, None)
            if after is not None:
                self.durable[name] = after
        del self.pending[:count]

    @rule()
    def fail(self) -> None:
        for write, _, _ in self.pending:
            self.made.failed(write)
        self.pending.clear()
        self.latest = dict(self.durable)

    @rule()
    def crash(self) -> None:
        self.pending.clear()
        self.latest = dict(self.durable)
        self.made = catalogue()
        for record in self.journal:
            self.made.replay(record.key, record.value)

    @invariant()
    def partitions_are_those_of_all_topics_that_exist_or_are_to_come(self) -> None:
        assert self.made.partitions == sum(topic.partitions for topic in self.latest.values())

    @invariant()
    def what_is_durable_is_visible(self) -> None:
        assert {topic.name: topic for topic in self.made.all()} == self.durable
        assert all(self.made.by_id(topic.topic_id) == topic for topic in self.durable.values())
        for name in ("a.b", "a_b", "c"):
            assert self.made.latest(name) == self.latest.get(name)


TestTopics = Lives.TestCase
TestTopics.settings = hypothesis_settings(max_examples=examples(80), stateful_step_count=25, deadline=None)


def test_a_replayed_topic_replaces_the_id_of_its_predecessor():
    """Compaction may have removed the tombstone between both."""
    made, next_id = catalogue(), bytes(16)[:-1] + b"1"
    for topic_id in (ID, next_id):
        record = topic_record(Topic("a", topic_id, 1, {}))
        made.replay(record.key, record.value)
    assert made.by_id(ID) is None
    assert made.by_id(next_id) is made.get("a")
