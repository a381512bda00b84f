"""Topics that are deleted, recreated or enlarged while other requests to them are not durable."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from stages.request import PARKED
from tests.apis.desk import Desk

BY_NAME, BY_ID = 12, 13
NO_ID = bytes(16)


@pytest.fixture
def desk():
    desk = Desk()
    desk.topic_id = desk.ask(creation(), 7).topics[0].topic_id
    return desk


def creation(partitions=1):
    return CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", partitions, 1)])


def deletion(topic_id=None):
    state = (
        DeleteTopicsRequest.DeleteTopicState("t")
        if topic_id is None
        else DeleteTopicsRequest.DeleteTopicState(None, topic_id)
    )
    return DeleteTopicsRequest(topics=[state], timeout_ms=1000)


def growth(partitions):
    return CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic("t", partitions, None)], 1000)


def production(value=b"v", partition=0):
    data = ProduceRequest.PartitionProduceData(partition, build_batch([NewRecord(value, None, 0)]))
    return ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=[data])])


def fetching(topic_id=NO_ID, *, waits, session_id=0, session_epoch=0):
    wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic("" if topic_id is not NO_ID else "t", topic_id, [wanted])]
    return FetchRequest(
        max_bytes=1 << 20,
        min_bytes=int(waits),
        max_wait_ms=1000,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[] if session_id else topics,
    )


def offset_of(response):
    (result,) = response.responses[0].partition_responses
    return result.error_code, result.base_offset


def error_of(response):
    (partition,) = response.responses[0].partitions
    return partition.error_code


def completed(desk, request, version) -> FetchResponse:
    ((_, result),) = desk.connection.completed
    return desk.finish(request, version, result)


def in_order(desk, *requests):
    """Decide all requests before the first is durable; return their answers."""
    decided = [(message, version, desk.decide(message, version)) for message, version in requests]
    return [desk.finish(*each) for each in decided]


def test_records_appended_before_a_deletion_are_answered_and_deleted(desk):
    produced, deleted = in_order(desk, (production(), 9), (deletion(), 6))
    assert (offset_of(produced), deleted.responses[0].error_code) == ((0, 0), 0)
    assert desk.broker.logs.partitions("t") == ()
    assert desk.restart().broker.topics.get("t") is None


def test_records_appended_during_a_deletion_do_no_harm(desk):
    deleted, produced, created = in_order(desk, (deletion(), 6), (production(b"old"), 9), (creation(), 7))
    assert deleted.responses[0].error_code == created.topics[0].error_code == 0
    assert offset_of(produced) == (0, 0)
    assert desk.broker.logs.find("t", 0).log_end_offset == 0
    assert offset_of(desk.ask(production(b"new"), 9)) == (0, 0)
    again = desk.restart()
    (log,) = again.broker.logs.partitions("t")
    assert (log.log_end_offset, log.topic_id) == (1, created.topics[0].topic_id)
    assert again.broker.logs.batches_skipped == 1


@pytest.mark.parametrize(("version", "by_id"), [(BY_NAME, False), (BY_ID, True)])
@pytest.mark.parametrize("another_follows", [False, True])
def test_a_waiting_fetch_gets_the_error_of_a_deleted_topic(desk, version, by_id, another_follows):
    request = fetching(desk.topic_id if by_id else NO_ID, waits=True)
    assert desk.decide(request, version) is PARKED
    in_order(desk, (deletion(), 6), *([(creation(), 7)] if another_follows else []))
    assert error_of(completed(desk, request, version)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_session_learns_which_topics_were_deleted_or_recreated(desk):
    """As in Apache Kafka; clients that know a topic by its id then request the new id. Case 79."""
    opened = desk.ask(fetching(desk.topic_id, waits=False), BY_ID)
    codes = []
    for epoch, change in enumerate((deletion(), creation(), None), 1):
        if change is not None:
            desk.ask(change, 6 if epoch == 1 else 7)
        codes.append(
            error_of(desk.ask(fetching(waits=False, session_id=opened.session_id, session_epoch=epoch), BY_ID))
        )
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ]
    assert error_of(desk.ask(fetching(desk.topic_id, waits=False), BY_ID)) == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_former_id_does_not_delete_the_next_topic(desk):
    """Neither the deletion nor the creation after it is durable yet."""
    _, created, by_id, by_name = in_order(
        desk, (deletion(), 6), (creation(), 7), (deletion(desk.topic_id), 6), (deletion(), 6)
    )
    assert by_id.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert by_name.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert desk.broker.topics.get("t").topic_id == created.topics[0].topic_id


def test_a_topic_may_grow_while_it_is_written_and_be_deleted_while_it_grows(desk):
    produced, grown, deleted = in_order(desk, (production(), 9), (growth(3), 3), (deletion(), 6))
    assert offset_of(produced) == (0, 0)
    assert grown.results[0].error_code == deleted.responses[0].error_code == 0
    assert desk.broker.logs.partitions("t") == ()
    assert desk.ask(creation(2), 7).topics[0].error_code == 0
    assert desk.ask(growth(4), 3).results[0].error_code == 0
    assert offset_of(desk.ask(production(partition=3), 9)) == (0, 0)
    assert [log.log_end_offset for log in desk.restart().broker.logs.partitions("t")] == [0, 0, 0, 1]


def test_a_producer_that_writes_the_same_way_again_writes_to_the_new_topic(desk):
    """A template must not outlive the topic."""
    for offset in range(3):
        assert offset_of(desk.ask(production(), 9)) == (0, offset)
    in_order(desk, (deletion(), 6), (creation(), 7))
    for offset in range(3):
        assert offset_of(desk.ask(production(), 9)) == (0, offset)


def test_files_of_a_deleted_topic_do_not_return_under_its_name(desk):
    desk.ask(production(b"old"), 9)
    desk.archive_all()
    in_order(desk, (deletion(), 6), (creation(), 7))
    desk.ask(production(b"new"), 9)
    desk.archive_all()
    (log,) = desk.restart().broker.logs.partitions("t")
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    records = log.read(0, 1 << 20, at_least_one=True)
    data = b"".join(map(bytes, records.parts if records.cold is None else records.cold()))
    assert b"new" in data
    assert b"old" not in data
