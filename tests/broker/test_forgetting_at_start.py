"""A broker that is killed while it deletes the offsets of a deleted topic in turns deletes the rest at the next
startup.

A kill is a restart: the desk writes each entry when it is submitted, so that only changes that were not appended are
lost.
"""

import pytest

from pipeline_broker.broker.coordinator import append_records
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.state.groups import forgetting
from pipeline_broker.state.groups.offset_records import NO_TOPIC_ID, CommittedOffset, OffsetKey, offset_record
from pipeline_broker.state.internal_topics import METADATA_TOPIC
from pipeline_broker.state.metadata_records import topic_record
from pipeline_broker.state.topics import NewTopic
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from tests.apis.groups.group_desk import GroupDesk
from tests.apis.transactions.transaction_desk import TRANSACTION, Producer
from tests.coordinators import coordinator_of

PARTITIONS = 4
"""Partitions of the topic `t` of the desk, and of `u`."""


@pytest.fixture
def desk(monkeypatch):
    monkeypatch.setattr(forgetting, "OFFSETS_AT_ONCE_MAX", 1)
    desk = GroupDesk()
    desk.ask(FindCoordinatorRequest(key="any", key_type=TRANSACTION), 2)
    create(desk, "u")
    return desk


def create(desk, name="t"):
    desk.create(NewTopic(name=name, topic_id=desk.broker.new_id().bytes, partitions=PARTITIONS))


def commit(desk, topic="t", group_id="g"):
    partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(index, 7, -1, "") for index in range(PARTITIONS)]
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(topic, partitions=partitions)]
    answer = desk.ask(OffsetCommitRequest(group_id, topics=topics), 7)
    assert not any(partition.error_code for partition in answer.topics[0].partitions)


def store(desk):
    producer = Producer(desk)
    desk.ask(producer.offsets(*[8] * PARTITIONS), 5)
    return producer


def delete(desk, name="t"):
    assert not desk.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 4).responses[0].error_code


def offsets(desk, group_id="g"):
    """Return the number of committed offsets of each topic."""
    found = [each.topic for each in coordinator_of(desk.broker, group_id).fetch(group_id)]
    return {topic: found.count(topic) for topic in set(found)}


def forget(desk):
    """Run the deletion to its end; return the number of turns."""
    turns = 0
    while (due_ms := desk.broker.groups.next_deadline_ms()) is not None and due_ms <= desk.now_ms:
        desk.broker.groups.advance(desk.now_ms)
        turns += 1
    return turns


def killed(desk, kills):
    """Kill the broker `kills` times, each time one turn after its start."""
    for _ in range(kills):
        desk = desk.restart()
        desk.broker.groups.advance(desk.now_ms)
    return desk.restart()


@pytest.mark.parametrize("kills", range(3))
def test_the_next_startup_deletes_the_remaining_offsets_and_no_others(desk, kills):
    for topic in ("t", "u"):
        commit(desk, topic)
    commit(desk, group_id="other")
    delete(desk)
    again = killed(desk, kills)
    assert "t" in offsets(again), "otherwise this is about nothing"
    assert forget(again) == 2 * PARTITIONS - 1 - kills
    for each in (again, again.restart()):
        assert (offsets(each), offsets(each, "other")) == ({"u": PARTITIONS}, {})
        assert forget(each) == 0


def test_a_topic_created_again_does_not_inherit_the_remaining_offsets(desk):
    commit(desk)
    delete(desk)
    create(desk)
    again = killed(desk, 0)
    assert forget(again) == PARTITIONS - 1
    assert offsets(again) == offsets(again.restart()) == {}


def test_offsets_of_the_topic_created_again_stay(desk):
    commit(desk)
    delete(desk)
    create(desk)
    commit(desk)
    again = killed(desk, 0)
    assert forget(again) == 0
    assert offsets(again) == {"t": PARTITIONS}


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("ends_before", [False, True])
def test_offsets_of_an_open_transaction_are_deleted_too(desk, is_made_anew, ends_before):
    """A transaction that ends before the deletion makes its offsets visible; they are deleted nevertheless."""
    producer = store(desk)
    delete(desk)
    if is_made_anew:
        create(desk)
    again = producer.desk = killed(desk, 0)
    if not ends_before:
        assert forget(again) == PARTITIONS - 1
    assert producer.ended() == 0
    assert offsets(again) == ({"t": PARTITIONS - 1} if ends_before else {})
    forget(again)
    assert offsets(again) == offsets(again.restart()) == {}


def test_offsets_of_an_open_transaction_for_an_existing_topic_stay(desk):
    producer = store(desk)
    again = producer.desk = killed(desk, 0)
    assert forget(again) == 0
    assert producer.ended() == 0
    assert offsets(again) == offsets(again.restart()) == {"t": PARTITIONS}


def test_offsets_without_a_topic_id_stay_while_a_topic_of_the_name_exists(desk):
    """Earlier releases stored offsets of transactions like this."""
    for topic in ("t", "gone"):
        record = offset_record(OffsetKey("g", topic, 0), CommittedOffset(7, topic_id=NO_TOPIC_ID))
        desk.commit([append_records(desk.broker.groups.topic.log_of("g"), [record], desk.now_ms)])
    again = killed(desk, 0)
    assert forget(again) == 1
    assert offsets(again) == {"t": 1}


def test_nothing_is_deleted_while_a_topic_record_cannot_be_read(desk):
    """The topic may exist: after a repair of the record its offsets are needed."""
    commit(desk)
    key = topic_record(desk.broker.topics.get("t")).key
    desk.commit([desk.broker.append_metadata(desk.broker.topics.delete("t"), desk.now_ms)])
    log = desk.broker.logs.find(METADATA_TOPIC, 0)
    batch = build_batch([NewRecord(b"\0\0{", key, desk.now_ms)])
    desk.commit([log.append(read_header(batch), batch, desk.now_ms).entry])
    again = killed(desk, 0)
    assert again.broker.topics.get("t") is None
    assert forget(again) == 0
    assert offsets(again) == {"t": PARTITIONS}
