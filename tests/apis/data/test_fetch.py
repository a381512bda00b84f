"""How much a fetch returns, and when it answers at once: Kafka's limits (KIP-74) and waits."""

import pytest

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from stages.request import PARKED, Parked, Send
from tests.apis.desk import Desk

VERSION = 12
BATCH = build_batch([NewRecord(bytes(1000), None, 0)])
SIZE = len(BATCH)


@pytest.fixture
def desk():
    desk = Desk("num.partitions=3")
    desk.create_topic("t")
    for _ in range(3):
        produce(desk, 0, 1, 2)
    return desk


def produce(desk, *partitions):
    data = [ProduceRequest.PartitionProduceData(index, BATCH) for index in partitions]
    request = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])
    assert all(not it.error_code for it in desk.ask(request, 9).responses[0].partition_responses)


def fetch(*partitions, offset=0, partition_max_bytes=1 << 20, max_bytes=1 << 20, min_bytes=1, max_wait_ms=0):
    """Partitions are numbers, or numbers with an offset each."""
    wanted = [it if isinstance(it, tuple) else (it, offset) for it in partitions]
    data = [
        FetchRequest.FetchPartition(index, fetch_offset=start, partition_max_bytes=partition_max_bytes)
        for index, start in wanted
    ]
    topics = [FetchRequest.FetchTopic("t", partitions=data)]
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, session_epoch=-1, topics=topics
    )


def sizes(answer):
    return [len(it.records or b"") for topic in answer.responses for it in topic.partitions]


@pytest.mark.parametrize("is_cold", [False, True], ids=["cached", "from the disk"])
def test_only_the_first_partition_with_records_gets_a_batch_above_a_limit(desk, is_cold):
    """So that a reader always gets on, and never gets more than one batch too many."""
    if is_cold:
        desk.archive_all()
        desk = desk.restart()
        desk.files.is_cold = True
    request = fetch(0, 1, 2, max_bytes=10)
    result = desk.decide(request, VERSION)
    assert isinstance(result, Parked if is_cold else Send)
    assert sizes(desk.finish(request, VERSION, result)) == [SIZE, 0, 0]
    assert sizes(desk.ask(fetch(0, 1, 2, partition_max_bytes=10), VERSION)) == [SIZE, 0, 0]


def test_a_partition_without_records_leaves_the_first_batch_to_the_next(desk):
    assert sizes(desk.ask(fetch((0, 3), 1, 2, max_bytes=10), VERSION)) == [0, SIZE, 0]


def test_partitions_share_the_limit_of_the_whole_in_their_order(desk):
    assert sizes(desk.ask(fetch(0, 1, 2, max_bytes=4 * SIZE), VERSION)) == [3 * SIZE, SIZE, 0]
    assert sizes(desk.ask(fetch(0, 1, 2, max_bytes=5 * SIZE - 1), VERSION)) == [3 * SIZE, SIZE, 0]


def test_each_partition_keeps_its_own_limit(desk):
    assert sizes(desk.ask(fetch(0, 1, 2, partition_max_bytes=2 * SIZE), VERSION)) == [2 * SIZE] * 3
    assert sizes(desk.ask(fetch(0, 1, 2, partition_max_bytes=2 * SIZE - 1), VERSION)) == [SIZE] * 3


def test_a_fetch_of_less_than_it_wants_waits(desk):
    assert desk.decide(fetch(0, min_bytes=3 * SIZE + 1, max_wait_ms=500), VERSION) is PARKED
    assert isinstance(desk.decide(fetch(0, min_bytes=3 * SIZE, max_wait_ms=500), VERSION), Send)
    assert isinstance(desk.decide(fetch(0, min_bytes=3 * SIZE + 1), VERSION), Send)


def test_it_wants_no_more_than_it_may_get(desk):
    request = fetch(0, min_bytes=3 * SIZE, max_bytes=2 * SIZE, max_wait_ms=500)
    assert isinstance(desk.decide(request, VERSION), Send)


def test_one_partition_with_an_error_answers_at_once(desk):
    """A consumer learns of it now, not when its wait is over."""
    request = fetch((0, 3), (1, 99), min_bytes=1 << 20, max_wait_ms=500)
    answer = desk.finish(request, VERSION, desk.decide(request, VERSION))
    codes = [ErrorCode(it.error_code).name for it in answer.responses[0].partitions]
    assert codes == ["NONE", "OFFSET_OUT_OF_RANGE"]


def test_a_fetch_of_nothing_answers_at_once(desk):
    request = FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[])
    assert isinstance(desk.decide(request, VERSION), Send)
