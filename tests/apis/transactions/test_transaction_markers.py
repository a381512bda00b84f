"""WriteTxnMarkers and DescribeProducers; expected values are those of Apache Kafka."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.transactions.describe_producers import DescribeProducersRequest
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from stages.request import Pending
from tests.apis.transactions.transactional_logs import OTHER, PRODUCER, Marker, MarkerTopic, TransactionDesk

UNKNOWN_TOPIC, UNKNOWN_SERVER_ERROR = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR
OFFSETS = "__consumer_offsets"


@pytest.fixture
def desk():
    return TransactionDesk().with_topic()


def described(desk, *partitions, topic="t"):
    """Return for each partition its error, or its producers as tuples."""
    asked = DescribeProducersRequest([DescribeProducersRequest.TopicRequest(topic, list(partitions))])
    (found,) = desk.ask(asked, 0).topics
    return [
        it.error_code
        or [
            (
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in it.active_producers
        ]
        for it in found.partitions
    ]


def test_a_marker_goes_to_every_partition_that_is_named(desk):
    marker = Marker(PRODUCER, 0, True, [MarkerTopic("t", [1, 0]), MarkerTopic("missing", [0])], 0)
    assert desk.markers(marker) == {
        (PRODUCER, "t", 1): 0,
        (PRODUCER, "t", 0): 0,
        (PRODUCER, "missing", 0): UNKNOWN_TOPIC,
    }
    assert [log.high_watermark for log in desk.broker.logs.partitions("t")] == [1, 1]


def test_a_missing_partition_is_unknown(desk):
    assert desk.markers(Marker(PRODUCER, 0, True, [MarkerTopic("t", [2])], 0)) == {(PRODUCER, "t", 2): UNKNOWN_TOPIC}


def test_every_marker_has_its_own_error(desk):
    desk.write(epoch=3)
    late = Marker(PRODUCER, 2, True, [MarkerTopic("t", [0, 1])], 0)
    assert desk.markers(late) == {(PRODUCER, "t", 0): ErrorCode.INVALID_PRODUCER_EPOCH, (PRODUCER, "t", 1): 0}
    desk.end(epoch=3)
    desk.markers(Marker(PRODUCER, 3, True, [MarkerTopic("t", [0])], 5))
    fenced = Marker(PRODUCER, 3, True, [MarkerTopic("t", [0])], 4)
    assert desk.markers(fenced) == {(PRODUCER, "t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}


def test_the_version_of_transactions_decides_about_the_epoch(desk):
    """Version 1 of the request has no transaction version; it is then that of older coordinators."""
    desk.write()
    strict = Marker(PRODUCER, 0, True, [MarkerTopic("t", [0])], 0, 2)
    assert desk.markers(strict) == {(PRODUCER, "t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    desk.end(epoch=0, version=1)


def test_the_answer_waits_until_the_markers_are_durable(desk):
    request = WriteTxnMarkersRequest([Marker(PRODUCER, 0, False, [MarkerTopic("t", [0, 1])], 0)])
    result = desk.decide(request, 2)
    assert isinstance(result, Pending)
    assert [entry.log.partition for entry in result.entries] == [0, 1]


def test_invalid_producers_refuse_the_whole_request(desk):
    for producer_id, epoch in ((-1, 0), (PRODUCER, -1)):
        bad = Marker(producer_id, epoch, True, [MarkerTopic("t", [0])], 0)
        good = Marker(OTHER, 0, True, [MarkerTopic("t", [0])], 0)
        assert set(desk.markers(good, bad).values()) == {UNKNOWN_SERVER_ERROR}
    assert desk.log.log_end_offset == 0


def test_no_markers_need_nothing(desk):
    assert desk.ask(WriteTxnMarkersRequest([]), 1).markers == []


def test_a_marker_for_no_partition_is_not_answered(desk):
    """With or without a topic, alone or among others."""
    nowhere = [Marker(OTHER, 0, False, topics, 0) for topics in ([], [MarkerTopic("t", [])])]
    assert desk.ask(WriteTxnMarkersRequest(nowhere), 2).markers == []
    answered = desk.ask(WriteTxnMarkersRequest([*nowhere, Marker(PRODUCER, 0, True, [MarkerTopic("t", [0])], 0)]), 2)
    assert [marker.producer_id for marker in answered.markers] == [PRODUCER]


def test_a_producer_that_is_named_twice_is_answered_once(desk):
    """With the result of the last marker of each partition."""
    first = Marker(PRODUCER, 5, True, [MarkerTopic("t", [0, 1])], 0)
    late = Marker(PRODUCER, 4, True, [MarkerTopic("t", [0])], 0)
    response = desk.ask(WriteTxnMarkersRequest([first, late]), 2)
    assert [marker.producer_id for marker in response.markers] == [PRODUCER]
    assert {it.partition_index: it.error_code for it in response.markers[0].topics[0].partitions} == {
        0: ErrorCode.INVALID_PRODUCER_EPOCH,
        1: 0,
    }


def test_a_partition_that_a_marker_names_twice_gets_one(desk):
    """Apache Kafka writes one too, but never answers."""
    twice = Marker(PRODUCER, 0, True, [MarkerTopic("t", [0, 0]), MarkerTopic("t", [0])], 0)
    assert desk.markers(twice) == {(PRODUCER, "t", 0): 0}
    assert desk.log.high_watermark == 1


def test_a_coordinator_is_notified_once_a_marker_in_its_topic_is_durable(desk, monkeypatch):
    desk.ask(FindCoordinatorRequest(key="group"), 0)
    told = []
    monkeypatch.setattr(
        type(desk.broker.groups),
        "marker_durable",
        lambda self, log, producer_id, *, is_commit: told.append((log.partition, producer_id, is_commit)),
    )
    topics = [MarkerTopic(OFFSETS, [3]), MarkerTopic("t", [0])]
    request = WriteTxnMarkersRequest(
        [Marker(PRODUCER, 0, True, topics, 0), Marker(OTHER, 0, False, [MarkerTopic(OFFSETS, [4])], 0)]
    )
    result = desk.decide(request, 2)
    assert told == []
    desk.finish(request, 2, result)
    assert told == [(3, PRODUCER, True), (4, OTHER, False)]


def test_a_marker_in_the_topic_of_offsets_is_no_record_of_groups(desk):
    desk.ask(FindCoordinatorRequest(key="group"), 0)
    desk.markers(Marker(PRODUCER, 0, True, [MarkerTopic(OFFSETS, [0])], 0))
    assert desk.restart().broker.logs.find(OFFSETS, 0).high_watermark == 1


def test_producers_are_described_with_their_open_transactions(desk):
    desk.write(count=2)
    desk.end(OTHER, epoch=4)
    batch = build_batch([NewRecord(b"v", None, 5)], producer_id=9, producer_epoch=0, base_sequence=40)
    desk.commit([desk.log.produce(batch, desk.now_ms).entry])
    (found, empty) = described(desk, 0, 1)
    assert sorted(found) == [
        (PRODUCER, 0, 1, desk.now_ms, -1, 0),
        (OTHER, 4, -1, desk.now_ms, 0, -1),
        (9, 0, 40, 5, -1, -1),
    ]
    assert empty == []


def test_missing_partitions_are_not_described(desk):
    assert described(desk, 7) == [UNKNOWN_TOPIC]
    assert described(desk, 0, topic="missing") == [UNKNOWN_TOPIC]
    assert described(desk, 0, topic="bad name") == [ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("partitions", [[0], [0, 1], [1, 0]])
def test_a_description_waits_for_undurable_entries_of_its_partitions(desk, partitions):
    desk.write(is_durable=False)
    asked = DescribeProducersRequest([DescribeProducersRequest.TopicRequest("t", partitions)])
    result = desk.decide(asked, 0)
    assert isinstance(result, Pending)
    assert list(result.entries) == []


def test_producers_survive_a_restart_from_the_journal_or_the_archive(desk):
    """Case 8."""
    desk.write(count=2)
    desk.end(epoch=1, committed=False)
    desk.write(epoch=1)
    before = described(desk, 0)
    sequences = desk.sequences
    desk = desk.restart()
    assert described(desk, 0) == before
    desk.archive_all()
    desk = desk.restart()
    assert described(desk, 0) == before
    desk.sequences = sequences
    desk.end(epoch=2)
    assert desk.log.last_stable_offset == desk.log.high_watermark
