"""Records of streams groups: Kafka's layouts, round trips, and corrupt records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.groups.modern.layouts import UNKNOWN_EPOCH, read_update, record_of
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState
from pipeline_broker.state.groups.modern.updates import TargetEpoch, Update
from pipeline_broker.state.groups.offset_records import record_value
from pipeline_broker.state.groups.streams.member import MemberMetadata
from pipeline_broker.state.groups.streams.records import LAYOUTS
from pipeline_broker.state.groups.streams.roles import Role, TaskKey
from pipeline_broker.state.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from pipeline_broker.state.groups.streams.updates import GroupEpoch, Subject
from pipeline_broker.wire.messages.groups.streams_group_records import StreamsGroupCurrentMemberAssignmentValue
from tests.state.groups.streams.streams_driver import StreamsDriver

texts = st.text(max_size=5)
names = st.lists(texts, max_size=2).map(tuple)
epochs = st.integers(-2, 2**31 - 1)
indexes = st.lists(st.integers(0, 9), max_size=2).map(tuple)
keys = st.builds(TaskKey, st.sampled_from(Role), texts)
topics = st.lists(
    st.builds(
        TopicInfo, texts, st.integers(0, 9), st.integers(0, 3), st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
    ),
    max_size=2,
).map(tuple)


def with_epochs(owned):
    """Records have the epochs of active tasks only."""
    return {
        key: tasks if key.role is Role.ACTIVE else dict.fromkeys(tasks, UNKNOWN_EPOCH) for key, tasks in owned.items()
    }


owned = st.dictionaries(keys, st.dictionaries(st.integers(0, 9), epochs, min_size=1), max_size=3).map(with_epochs)
VALUES = {
    Subject.GROUP_EPOCH: st.builds(
        GroupEpoch,
        epochs,
        st.integers(-(2**63), 2**63 - 1),
        epochs,
        st.dictionaries(texts, texts, max_size=2),
        epochs,
        epochs,
    ),
    Subject.MEMBER: st.builds(
        MemberMetadata,
        instance_id=st.none() | texts,
        rack_id=st.none() | texts,
        client_id=texts,
        client_host=texts,
        rebalance_timeout_ms=epochs,
        topology_epoch=epochs,
        process_id=texts,
        endpoint=st.none() | st.tuples(texts, st.integers(0, 2**16 - 1)),
        client_tags=st.dictionaries(texts, texts, max_size=2),
    ),
    Subject.TARGET_EPOCH: st.builds(TargetEpoch, epochs, st.integers(0, 2**40)),
    Subject.TARGET: st.dictionaries(keys, st.frozensets(st.integers(0, 9), min_size=1), max_size=3),
    Subject.CURRENT: st.builds(
        CurrentAssignment,
        member_epoch=epochs,
        previous_epoch=epochs,
        state=st.sampled_from(MemberState),
        assigned=owned,
        revoking=owned,
    ),
    Subject.TOPOLOGY: st.builds(
        Topology,
        epochs,
        st.lists(
            st.builds(
                Subtopology,
                texts,
                names,
                names,
                names,
                topics,
                topics,
                st.lists(st.builds(CopartitionGroup, indexes, indexes, indexes), max_size=2).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
    ),
}


@st.composite
def updates(draw):
    subject = draw(st.sampled_from(list(VALUES)))
    name = draw(texts) if subject in {Subject.MEMBER, Subject.TARGET, Subject.CURRENT} else ""
    return Update(subject, name, draw(st.none() | VALUES[subject]))


@given(texts, updates())
def test_records_round_trip(group_id, update):
    record = record_of(LAYOUTS, group_id, update)
    assert record.key[:2] == int(update.subject).to_bytes(2)
    assert read_update(LAYOUTS, update.subject, record.key, record.value) == (group_id, update)


@given(updates())
def test_truncated_records_are_corrupt(update):
    record = record_of(LAYOUTS, "g", update)
    for end in range(2, len(record.key)):
        with pytest.raises(CorruptStateRecordError):
            read_update(LAYOUTS, update.subject, record.key[:end], record.value)
    for end in range(len(record.value or b"")):
        with pytest.raises(CorruptStateRecordError):
            read_update(LAYOUTS, update.subject, record.key, record.value[:end])


def test_equal_assignments_have_equal_bytes():
    tasks = {TaskKey(role, name): frozenset({2, 1}) for role in Role for name in ("a", "b")}
    first, second = (
        record_of(LAYOUTS, "g", Update(Subject.TARGET, "m", dict(items)))
        for items in (tasks.items(), reversed(tasks.items()))
    )
    assert first == second


def test_the_tombstone_of_the_member_itself_is_last():
    """Apache Kafka, which may read the same records, fails on other records of a member after its tombstone."""
    driver = StreamsDriver()
    driver.create_topics()
    driver.enter("m")
    driver.tick(3_000)
    driver.beat("m", member_epoch=2)
    before = len(driver.journal)
    driver.beat("m", member_epoch=-1)
    gone = [int.from_bytes(record.key[:2]) for record in driver.journal[before:] if record.value is None]
    assert gone == [Subject.CURRENT, Subject.TARGET, Subject.MEMBER]


def test_a_record_without_epochs_or_with_an_unknown_state_is_read():
    value = StreamsGroupCurrentMemberAssignmentValue
    old = value(3, 2, 9, [value.TaskIds("0", [1, 2], None)], [], [], [], [], [])
    key = record_of(LAYOUTS, "g", Update(Subject.CURRENT, "m", CurrentAssignment())).key
    _, update = read_update(LAYOUTS, Subject.CURRENT, key, record_value(0, old))
    assert update.value.state is MemberState.UNKNOWN
    assert update.value.assigned == {TaskKey(Role.ACTIVE, "0"): {1: UNKNOWN_EPOCH, 2: UNKNOWN_EPOCH}}


@given(st.permutations([*VALUES]))
def test_records_of_a_member_are_read_in_any_order(order):
    """Compaction keeps only the last record of each key, so earlier ones may be missing."""
    driver = StreamsDriver()
    driver.create_topics()
    driver.enter("m")
    driver.tick(3_000)
    driver.beat("m", member_epoch=2)
    journal = {record.key[:2]: record for record in driver.journal}
    live = driver.group()
    driver.journal = [journal[key] for key in (int(subject).to_bytes(2) for subject in order) if key in journal]
    driver.restart()
    replayed = driver.group()
    assert (replayed.epoch, replayed.assignment_epoch) == (live.epoch, live.assignment_epoch)
    assert (replayed.members, replayed.target) == (live.members, live.target)
    assert (replayed.topology, replayed.state_name) == (live.topology, live.state_name)
