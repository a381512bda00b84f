"""Records of consumer groups: Kafka's layouts, round trips, and corrupt records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.groups.consumer.group import ConsumerGroup
from pipeline_broker.state.groups.consumer.member import ClassicMetadata, MemberMetadata
from pipeline_broker.state.groups.consumer.records import LAYOUTS
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, ResolvedRegex, Subject
from pipeline_broker.state.groups.modern.layouts import read_update, record_of
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState
from pipeline_broker.state.groups.modern.updates import TargetEpoch, Update
from pipeline_broker.state.groups.offset_records import record_value
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.consumer_protocol import VERSION
from pipeline_broker.wire.messages.groups.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)
from pipeline_broker.wire.messages.groups.consumer_protocol import ConsumerProtocolSubscription
from tests.state.groups.consumer.consumer_driver import ConsumerDriver

texts = st.text(max_size=5)
ids = st.binary(min_size=16, max_size=16)
epochs = st.integers(-2, 2**31 - 1)
owned = st.dictionaries(ids, st.dictionaries(st.integers(0, 9), epochs, min_size=1), max_size=2)
subscriptions = st.lists(texts, max_size=3).map(
    lambda topics: b"".join([VERSION.pack(1), *encode(ConsumerProtocolSubscription(topics), 1)])
)
VALUES = {
    Subject.GROUP_EPOCH: st.builds(GroupEpoch, epochs, st.integers(-(2**63), 2**63 - 1)),
    Subject.MEMBER: st.builds(
        MemberMetadata,
        instance_id=st.none() | texts,
        rack_id=st.none() | texts,
        client_id=texts,
        client_host=texts,
        topic_names=st.frozensets(texts, max_size=3),
        topic_regex=texts,
        rebalance_timeout_ms=epochs,
        server_assignor=st.none() | texts,
        classic=st.none()
        | st.builds(
            ClassicMetadata,
            st.integers(0, 9),
            st.lists(st.tuples(texts, subscriptions), min_size=1, max_size=3).map(tuple),
        ),
    ),
    Subject.TARGET_EPOCH: st.builds(TargetEpoch, epochs, st.integers(0, 2**40)),
    Subject.TARGET: st.dictionaries(ids, st.frozensets(st.integers(0, 9), min_size=1), max_size=2),
    Subject.CURRENT: st.builds(
        CurrentAssignment,
        member_epoch=epochs,
        previous_epoch=epochs,
        state=st.sampled_from(MemberState),
        assigned=owned,
        revoking=owned,
    ),
    Subject.REGEX: st.builds(ResolvedRegex, st.frozensets(texts), st.integers(0, 9), st.integers(0, 2**40)),
}


@st.composite
def updates(draw):
    subject = draw(st.sampled_from(list(VALUES)))
    name = "" if subject in {Subject.GROUP_EPOCH, Subject.TARGET_EPOCH} else draw(texts)
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


def test_record_bytes_equal_kafkas():
    """The key and value of an epoch, byte for byte; the hash is a tagged field."""
    record = record_of(LAYOUTS, "g", Update(Subject.GROUP_EPOCH, "", GroupEpoch(3, 5)))
    assert record.key == b"\0\3\0\1g"
    assert record.value == b"\0\0" + b"\0\0\0\3" + b"\1\0\x08" + b"\0" * 7 + b"\5"


def test_the_tombstone_of_the_member_itself_is_last():
    """Apache Kafka, which may read the same records, fails on other records of a member after its tombstone."""
    driver = ConsumerDriver()
    driver.create("t")
    driver.enter("m")
    before = len(driver.journal)
    driver.beat("m", member_epoch=-1)
    gone = [int.from_bytes(record.key[:2]) for record in driver.journal[before:] if record.value is None]
    assert gone == [Subject.CURRENT, Subject.TARGET, Subject.MEMBER]


def test_records_without_assignment_epochs_or_with_unknown_states_are_read():
    """Brokers before 4.3 wrote no assignment epochs. A state of a newer version becomes UNKNOWN."""
    value = ConsumerGroupCurrentMemberAssignmentValue
    old = value(member_epoch=3, state=9, assigned_partitions=[value.TopicPartitions(bytes(16), [1, 2])])
    key = record_of(LAYOUTS, "g", Update(Subject.CURRENT, "m", CurrentAssignment())).key
    _, update = read_update(LAYOUTS, 8, key, record_value(0, old))
    assert update.value.state is MemberState.UNKNOWN
    assert update.value.assigned == {bytes(16): {1: -1, 2: -1}}


def test_a_record_of_kafka_without_a_regex_is_read():
    key = record_of(LAYOUTS, "g", Update(Subject.MEMBER, "m", MemberMetadata())).key
    value = record_value(0, ConsumerGroupMemberMetadataValue(subscribed_topic_regex=None))
    assert read_update(LAYOUTS, Subject.MEMBER, key, value)[1].value.topic_regex == ""


def test_partition_metadata_gets_a_tombstone_with_the_next_epoch():
    driver = ConsumerDriver()
    driver.create("t")
    driver.enter("m")
    former = record_of(LAYOUTS, "g", Update(Subject.PARTITION_METADATA, "", value=True))
    driver.journal.append(former)
    driver.restart()
    assert driver.group().has_partition_metadata
    driver.beat("m", member_epoch=-1)
    assert [record.value for record in driver.journal if record.key == former.key][-1] is None
    assert not driver.group().has_partition_metadata


@given(st.permutations([*VALUES]))
def test_records_of_a_member_are_read_in_any_order(order):
    """Compaction keeps only the last record of each key, so earlier ones may be missing."""
    driver = ConsumerDriver()
    driver.create("t")
    driver.enter("m", topic_regex="t")
    journal = {record.key[:2]: record for record in driver.journal}
    live = driver.group()
    driver.journal = [journal[key] for key in (int(subject).to_bytes(2) for subject in order) if key in journal]
    driver.restart()
    replayed = driver.group()
    assert isinstance(replayed, ConsumerGroup)
    for name in ("epoch", "assignment_epoch", "members", "target", "regexes", "_owners"):
        assert getattr(replayed, name) == getattr(live, name), name


def test_timers_restart_after_a_broker_restart():
    driver = ConsumerDriver()
    driver.create("t")
    driver.enter("a", rebalance_timeout_ms=10_000)
    driver.tick(1_000)
    driver.enter("b")
    driver.beat("a", member_epoch=2)
    driver.restart()
    driver.tick(10_000)
    assert list(driver.group().members) == ["b"], "a did not revoke in time"
    driver.tick(35_000)
    assert driver.group().is_empty, "b sent no heartbeat"


def test_deleting_a_group_deletes_its_partition_metadata():
    driver = ConsumerDriver()
    driver.create("t")
    driver.enter("m")
    driver.beat("m", member_epoch=-1)
    former = record_of(LAYOUTS, "g", Update(Subject.PARTITION_METADATA, "", value=True))
    for is_there in (False, True):
        driver.journal += [former] * is_there
        driver.restart()
        length = len(driver.journal)
        driver.hold = True
        driver.delete()
        records = [record for write in driver.pending for record in write.records]
        assert [record.value for record in records if record.key == former.key] == [None] * is_there
        driver.hold = False
        assert len(driver.journal) == length


@pytest.mark.parametrize("protocols", [(), (("range", b""),), (("range", b"\0"),)])
def test_a_classic_member_with_an_unreadable_subscription_is_corrupt(protocols):
    metadata = MemberMetadata(rebalance_timeout_ms=1, classic=ClassicMetadata(1, protocols))
    record = record_of(LAYOUTS, "g", Update(Subject.MEMBER, "m", metadata))
    with pytest.raises(CorruptStateRecordError, match="subscription of a classic member"):
        read_update(LAYOUTS, Subject.MEMBER, record.key, record.value)
