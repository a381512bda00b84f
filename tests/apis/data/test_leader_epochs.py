"""Answers to clients about a partition whose leader has changed; values as of Apache Kafka with two brokers."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import read_header
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.topics.describe_topic_partitions import DescribeTopicPartitionsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.apis.data import test_list_offsets, test_offset_for_leader_epoch
from tests.apis.data.test_delete_records import create, delete, produce
from tests.apis.desk import Desk

VERSION = 17
FENCED, UNKNOWN = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.fixture
def desk():
    """Partition 0 of `t` has two records of each of the epochs 0, 3 and 7."""
    desk = Desk()
    create(desk, "t")
    produce(desk, timestamps=(10, 20))
    for epoch, timestamps in ((3, (30, 40)), (7, (50, 60))):
        begin_epoch(desk, epoch)
        produce(desk, timestamps=timestamps)
    return desk


def begin_epoch(desk, epoch):
    log = desk.broker.logs.find("t", 0)
    log.begin_epoch(epoch, log.log_end_offset)


def fetched(desk, offset, *, epoch=-1, last_epoch=-1, max_wait_ms=0):
    wanted = FetchRequest.FetchPartition(0, epoch, offset, last_epoch, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic_id=desk.broker.topics.get("t").topic_id, partitions=[wanted])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)
    (topic,) = desk.ask(request, VERSION).responses
    return topic.partitions[0]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (0, (0, 0, 2)),
        (2, (0, 0, 2)),
        (3, (0, 3, 4)),
        (6, (0, 3, 4)),
        (7, (0, 7, 6)),
        (8, (0, -1, -1)),
        (-5, (0, -5, 0)),
    ],
)
def test_an_epoch_ends_where_the_next_known_one_begins(desk, asked, found):
    assert test_offset_for_leader_epoch.ask(desk, (0, asked)) == [found]


def test_deleted_records_leave_the_epoch_of_the_log_start(desk):
    delete(desk, (0, 3))
    asked = [(0, epoch) for epoch in (0, 2, 3, 7)]
    assert test_offset_for_leader_epoch.ask(desk, *asked) == [(0, 0, 3), (0, 2, 3), (0, 3, 4), (0, 7, 6)]
    assert test_list_offsets.ask(desk, (0, test_list_offsets.EARLIEST)) == [(0, -1, 3, 3)]


@pytest.mark.parametrize("is_archived", [False, True])
def test_offsets_are_listed_with_the_epoch_of_their_record(desk, is_archived):
    if is_archived:
        desk.archive_all()
        desk = desk.restart()
    asked = [test_list_offsets.EARLIEST, 20, 30, 60, test_list_offsets.MAX_TIMESTAMP, test_list_offsets.LATEST]
    assert [test_list_offsets.ask(desk, (0, each))[0] for each in asked] == [
        (0, -1, 0, 0),
        (0, 20, 1, 0),
        (0, 30, 2, 3),
        (0, 60, 5, 7),
        (0, 60, 5, 7),
        (0, -1, 6, 7),
    ]


@pytest.mark.parametrize("is_archived", [False, True])
def test_batches_keep_the_epoch_of_their_leader(desk, is_archived):
    if is_archived:
        desk.archive_all()
        desk = desk.restart()
    assert [read_header(fetched(desk, 2 * number).records).partition_leader_epoch for number in range(3)] == [0, 3, 7]
    produce(desk)
    assert read_header(fetched(desk, 6).records).partition_leader_epoch == 7


def test_a_client_with_a_former_epoch_is_refused(desk):
    for epoch, code in ((7, ErrorCode.NONE), (-1, ErrorCode.NONE), (3, FENCED), (0, FENCED), (8, UNKNOWN)):
        assert fetched(desk, 0, epoch=epoch).error_code == code
        assert test_list_offsets.ask(desk, (0, 10, epoch))[0][0] == code
        assert test_offset_for_leader_epoch.ask(desk, (0, 7, epoch))[0][0] == code
        found = fetched(desk, 0, epoch=epoch).current_leader
        assert (found.leader_id, found.leader_epoch) == ((1, 7) if code is FENCED else (-1, -1))


@pytest.mark.parametrize(("offset", "last_epoch"), [(0, 0), (2, 0), (3, 3), (4, 3), (6, 7)])
def test_a_client_that_agrees_with_the_log_receives_records(desk, offset, last_epoch):
    found = fetched(desk, offset, last_epoch=last_epoch)
    assert (found.error_code, found.diverging_epoch.end_offset) == (0, -1)
    assert bool(found.records) == (offset < 6)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"), [(3, 0, (0, 2)), (1, 2, (0, 2)), (5, 3, (3, 4)), (4, 6, (3, 4))]
)
def test_a_client_with_other_records_learns_at_once_where_they_differ(desk, offset, last_epoch, diverging):
    """KIP-595."""
    found = fetched(desk, offset, last_epoch=last_epoch, max_wait_ms=10_000)
    assert (found.error_code, found.records or b"") == (0, b"")
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == diverging


def test_a_client_with_an_epoch_that_has_not_begun_is_out_of_range(desk):
    assert fetched(desk, 0, last_epoch=8).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    delete(desk, (0, 3))
    assert fetched(desk, 2, last_epoch=3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_each_partition_is_described_with_its_own_epoch(desk):
    (topic,) = desk.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]), 12).topics
    assert [each.leader_epoch for each in topic.partitions] == [7, 0]
    wanted = [DescribeTopicPartitionsRequest.TopicRequest("t")]
    (topic,) = desk.ask(DescribeTopicPartitionsRequest(wanted), 0).topics
    assert [each.leader_epoch for each in topic.partitions] == [7, 0]
