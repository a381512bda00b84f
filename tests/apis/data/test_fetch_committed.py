"""Fetches of read_committed clients, as in Apache Kafka."""

import pytest

from pipeline_broker.apis.data import fetch as fetching
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from stages.request import PARKED, Parked, Unfinished
from tests.apis.transactions.transactional_logs import (
    OTHER,
    PRODUCER,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TransactionDesk,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@pytest.fixture
def desk():
    return TransactionDesk().with_topic()


def offsets(partition):
    return [header.base_offset for header, _ in iterate_batches(partition.records)]


def aborted(partition):
    return [(it.producer_id, it.first_offset) for it in partition.aborted_transactions]


def test_a_reader_of_committed_records_ends_at_the_last_stable_offset(desk):
    desk.write_outside()
    desk.write()
    desk.write_outside()
    found = desk.fetch()
    assert (offsets(found), found.last_stable_offset, found.high_watermark) == ([0], 1, 3)
    assert offsets(desk.fetch(isolation_level=READ_UNCOMMITTED)) == [0, 1, 2]
    assert offsets(desk.fetch(2)) == [], "a fetch after the last stable offset is empty, without an error"


def test_all_readers_receive_the_last_stable_offset(desk):
    desk.write_outside()
    desk.write()
    assert desk.fetch(isolation_level=READ_UNCOMMITTED).last_stable_offset == 1


def test_only_read_committed_clients_get_aborted_transactions(desk):
    desk.write()
    desk.end(committed=False)
    assert desk.fetch(isolation_level=READ_UNCOMMITTED).aborted_transactions is None
    assert aborted(desk.fetch(isolation_level=READ_COMMITTED)) == [(PRODUCER, 0)]


def test_only_aborted_transactions_of_returned_records_are_listed(desk):
    desk.write()
    desk.end(committed=False)
    desk.write(OTHER)
    desk.end(OTHER, committed=False)
    assert aborted(desk.fetch(0)) == [(PRODUCER, 0), (OTHER, 2)]
    assert aborted(desk.fetch(2)) == [(OTHER, 2)]
    assert aborted(desk.fetch(1)) == [(PRODUCER, 0), (OTHER, 2)], "its marker ends it for the reader"
    assert aborted(desk.fetch(4)) == [], "nothing is returned"
    first_only = desk.fetch(0, max_bytes=1)
    assert (offsets(first_only), aborted(first_only)) == ([0], [(PRODUCER, 0)])


def test_committed_transactions_are_not_listed(desk):
    desk.write()
    desk.end()
    assert (offsets(desk.fetch()), aborted(desk.fetch())) == ([0, 1], [])


@pytest.mark.parametrize("is_cold", [True, False])
def test_the_archive_returns_the_same(desk, is_cold):
    desk.write()
    desk.end(committed=False)
    desk.write(OTHER, 2)
    desk.archive_all()
    desk.end(OTHER, committed=False)
    desk.write(OTHER)
    expected = {0: ([0, 1, 2], [(PRODUCER, 0), (OTHER, 2)]), 2: ([2], [(OTHER, 2)]), 4: ([4], [(OTHER, 2)])}
    desk.files.is_cold = is_cold
    found = {offset: (offsets(desk.fetch(offset)), aborted(desk.fetch(offset))) for offset in expected}
    assert found == expected
    desk.files.is_cold = False
    again = desk.restart()
    assert {offset: (offsets(again.fetch(offset)), aborted(again.fetch(offset))) for offset in expected} == expected
    assert again.fetch(5).last_stable_offset == 5


def test_reading_the_archives_index_takes_a_thread(desk):
    desk.write()
    desk.end(committed=False)
    desk.archive_all()
    desk.fetch(), desk.fetch()
    request = desk.fetch_request()
    result = desk.decide(request, 12)
    assert isinstance(result, Parked), "its index is read from the disk"
    assert result.work is not None
    assert aborted(desk.finish(request, 12, result).responses[0].partitions[0]) == [(PRODUCER, 0)]
    plain = desk.fetch_request(isolation_level=READ_UNCOMMITTED)
    assert not isinstance(desk.decide(plain, 12), Parked)


def test_read_uncommitted_counts_open_transactions_between_the_turns_of_a_fetch(desk, monkeypatch):
    desk.write()
    monkeypatch.setattr(fetching, "READ_COST", 10**6)
    request = desk.fetch_request(1, READ_UNCOMMITTED, max_wait_ms=1000)
    result = desk.decide(request, 12)
    assert isinstance(result, Unfinished)
    monkeypatch.undo()
    desk.write()
    (topic,) = desk.finish(request, 12, result).responses
    assert offsets(topic.partitions[0]) == [1]


def test_a_fetch_waits_for_the_end_of_a_transaction_not_for_its_records(desk):
    desk.write()
    assert desk.decide(desk.fetch_request(max_wait_ms=1000), 12) is PARKED
    desk.write(count=3)
    desk.write_outside()
    assert desk.connection.completed == [], "nothing of that is decided"
    desk.end()
    ((_, answer),) = desk.connection.completed
    (topic,) = desk.finish(desk.fetch_request(), 12, answer).responses
    assert offsets(topic.partitions[0]) == [0, 1, 4, 5]


def test_a_reader_that_waits_before_deleted_records_gets_out_of_range(desk):
    desk.write()
    assert desk.decide(desk.fetch_request(max_wait_ms=1000), 12) is PARKED
    partition = DeleteRecordsRequest.DeleteRecordsPartition(0, 1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequest.DeleteRecordsTopic("t", [partition])])
    desk.ask(request, 2)
    ((_, answer),) = desk.connection.completed
    (topic,) = desk.finish(desk.fetch_request(), 12, answer).responses
    assert topic.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_counts_only_bytes_that_are_decided(desk):
    """One transaction ends, another stays open: fewer than the minimum bytes are readable."""
    desk.write()
    desk.write(OTHER, size=1000)
    wanted = 500
    assert desk.decide(desk.fetch_request(max_wait_ms=1000, min_bytes=wanted), 12) is PARKED
    desk.end()
    assert desk.connection.completed == []
    desk.end(OTHER)
    assert len(desk.connection.completed) == 1


def test_a_fetch_of_everything_is_woken_by_records_as_ever(desk):
    desk.write()
    request = desk.fetch_request(1, READ_UNCOMMITTED, max_wait_ms=1000)
    assert desk.decide(request, 12) is PARKED
    desk.write()
    assert len(desk.connection.completed) == 1


def test_a_session_is_answered_if_only_a_transaction_ended(desk):
    """As in Apache Kafka, because a marker raises the high watermark too."""
    desk.write()
    first = desk.ask(desk.fetch_request(1, session_epoch=0), 12)
    nothing = {"session_id": first.session_id, "max_wait_ms": 0}
    again = desk.fetch_request(1, session_epoch=1, **nothing)
    assert desk.ask(again, 12).responses == []
    desk.end()
    (topic,) = desk.ask(desk.fetch_request(1, session_epoch=2, **nothing), 12).responses
    assert topic.partitions[0].last_stable_offset == 2


def listed(desk, timestamp, isolation_level):
    partition = ListOffsetsRequest.ListOffsetsPartition(0, -1, timestamp)
    request = ListOffsetsRequest(-1, isolation_level, [ListOffsetsRequest.ListOffsetsTopic("t", [partition])])
    (topic,) = desk.ask(request, 8).topics
    (found,) = topic.partitions
    return found.error_code, found.offset


def test_the_latest_offset_is_the_last_stable_one(desk):
    desk.write_outside()
    desk.write()
    assert listed(desk, LATEST, READ_COMMITTED) == (0, 1)
    assert listed(desk, LATEST, READ_UNCOMMITTED) == (0, 2)
    assert listed(desk, EARLIEST, READ_COMMITTED) == (0, 0)


def test_a_record_after_the_last_stable_offset_is_not_found_by_its_time(desk):
    desk.write_outside(timestamp=1000)
    desk.write()
    assert listed(desk, 2000, READ_UNCOMMITTED) == (0, 1)
    assert listed(desk, 2000, READ_COMMITTED) == (0, -1)
    assert listed(desk, 1000, READ_COMMITTED) == (0, 0)
    assert listed(desk, MAX_TIMESTAMP, READ_COMMITTED) == (0, -1)
    desk.end()
    assert listed(desk, 2000, READ_COMMITTED) == (0, 1)
