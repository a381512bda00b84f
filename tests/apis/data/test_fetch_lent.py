"""Fetches of archived batches that were verified before: the response refers to the file, with the same bytes."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.archive.segment_reader import LENT_BYTES_MIN
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from stages.request import FileRange, Parked, Send
from tests.apis.desk import Desk

VERSION = 12
BATCH = build_batch([NewRecord(bytes(LENT_BYTES_MIN // 2), None, 0)])
BATCHES = 6


def archived_desk(*settings):
    desk = Desk("num.partitions=2", *settings)
    desk.create_topic("t")
    for _ in range(BATCHES):
        data = [ProduceRequest.PartitionProduceData(index, BATCH) for index in (0, 1)]
        request = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])
        assert not desk.ask(request, 9).responses[0].partition_responses[0].error_code
    desk.archive_all()
    desk = desk.restart()  # the latest records are not in memory
    desk.connection.sends_ranges = True
    return desk


@pytest.fixture
def desk():
    return archived_desk()


def fetch(offset=0, bytes_max=1 << 20, partitions=(0, 1), isolation_level=0):
    data = [
        FetchRequest.FetchPartition(index, fetch_offset=offset, partition_max_bytes=bytes_max) for index in partitions
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        isolation_level=isolation_level,
        topics=[FetchRequest.FetchTopic("t", partitions=data)],
    )


def response(desk, request):
    """Return the number of ranges in the response, and its bytes after the correlation id."""
    result = desk.decide(request, VERSION)
    if isinstance(result, Parked):
        result = result.work()
    assert isinstance(result, Send)
    return sum(type(part) is FileRange for part in result.parts), b"".join(map(bytes, result.parts))[4:]


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("offset", [0, 2])
def test_the_second_fetch_has_the_same_bytes_without_reading_them(desk, offset, isolation_level):
    singles = [fetch(offset, partitions=(index,), isolation_level=isolation_level) for index in (0, 1)]
    for request in singles:
        first, second = response(desk, request), response(desk, request)
        assert first[1] == second[1]
        assert (first[0], second[0]) == (0, 1)
        assert first[1].count(BATCH[61:]) == BATCHES - offset
    both = response(desk, fetch(offset, isolation_level=isolation_level))
    assert both[0] == 2
    assert both[1].count(BATCH[61:]) == 2 * (BATCHES - offset)


def test_limits_count_for_lent_batches(desk):
    response(desk, fetch())
    assert response(desk, fetch(bytes_max=3 * len(BATCH) + 1, partitions=(0,)))[1].count(BATCH[61:]) == 3
    assert response(desk, fetch(bytes_max=3 * len(BATCH) - 1, partitions=(0,)))[0] == 1


def test_always_verifying_lends_nothing():
    desk = archived_desk("pipeline.fetch.verify=always")
    assert [response(desk, fetch())[0] for _ in range(3)] == [0, 0, 0]


def test_a_connection_that_needs_the_bytes_gets_no_range(desk):
    desk.connection.sends_ranges = False  # TLS
    assert [response(desk, fetch())[0] for _ in range(3)] == [0, 0, 0]


def test_deleted_records_are_not_lent(desk):
    response(desk, fetch())
    partitions = [DeleteRecordsRequest.DeleteRecordsPartition(0, 4)]
    desk.ask(DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic("t", partitions)], 1000), 2)
    found = desk.ask(fetch(partitions=(0,)), VERSION).responses[0].partitions[0]
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert response(desk, fetch(4, partitions=(0,)))[0] == 1
