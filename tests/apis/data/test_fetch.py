"""Size limits of fetches (KIP-74), and their waits."""

import errno

import attrs
import pytest

from pipeline_broker.apis.data import fetch as fetching
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker import waiting_fetches
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.registry import ApiKey
from stages.request import PARKED, Parked, Send, Unfinished, go_on
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
    """So that a reader always makes progress, and never gets more than one batch too many."""
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


def test_partitions_share_the_total_limit_in_order(desk):
    assert sizes(desk.ask(fetch(0, 1, 2, max_bytes=4 * SIZE), VERSION)) == [3 * SIZE, SIZE, 0]
    assert sizes(desk.ask(fetch(0, 1, 2, max_bytes=5 * SIZE - 1), VERSION)) == [3 * SIZE, SIZE, 0]


def test_each_partition_keeps_its_own_limit(desk):
    assert sizes(desk.ask(fetch(0, 1, 2, partition_max_bytes=2 * SIZE), VERSION)) == [2 * SIZE] * 3
    assert sizes(desk.ask(fetch(0, 1, 2, partition_max_bytes=2 * SIZE - 1), VERSION)) == [SIZE] * 3


def test_a_fetch_of_less_than_it_wants_waits(desk):
    assert desk.decide(fetch(0, min_bytes=3 * SIZE + 1, max_wait_ms=500), VERSION) is PARKED
    assert isinstance(desk.decide(fetch(0, min_bytes=3 * SIZE, max_wait_ms=500), VERSION), Send)
    assert isinstance(desk.decide(fetch(0, min_bytes=3 * SIZE + 1), VERSION), Send)


def test_waiting_fetches_have_a_byte_limit_and_the_next_is_answered_at_once(desk, monkeypatch):
    waits = fetch(0, min_bytes=1 << 20, max_wait_ms=500)
    assert desk.decide(waits, VERSION) is PARKED
    monkeypatch.setattr(waiting_fetches, "REQUEST_BYTES_MAX", desk.broker.fetches._request_bytes)
    assert isinstance(desk.decide(waits, VERSION), Send)
    desk.now_ms += 500
    desk.broker.advance(desk.now_ms)
    assert desk.decide(waits, VERSION) is PARKED
    desk.broker.fetches.connection_closed(desk.connection.session)
    assert desk.decide(waits, VERSION) is PARKED


def test_it_wants_no_more_than_it_may_get(desk):
    request = fetch(0, min_bytes=3 * SIZE, max_bytes=2 * SIZE, max_wait_ms=500)
    assert isinstance(desk.decide(request, VERSION), Send)


def test_one_partition_with_an_error_answers_at_once(desk):
    """A consumer receives the error now, not after its wait."""
    request = fetch((0, 3), (1, 99), min_bytes=1 << 20, max_wait_ms=500)
    answer = desk.finish(request, VERSION, desk.decide(request, VERSION))
    codes = [ErrorCode(it.error_code).name for it in answer.responses[0].partitions]
    assert codes == ["NONE", "OFFSET_OUT_OF_RANGE"]


def test_a_fetch_of_nothing_answers_at_once(desk):
    request = FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[])
    assert isinstance(desk.decide(request, VERSION), Send)


class Counted:
    """Records the calls of handlers in place of the topic metrics."""

    def __init__(self):
        self.told = []

    def fetched(self, logs):
        self.told.append([None if log is None else log.partition for log in logs])

    def fetch_failed(self, topic):
        self.told.append(topic)


def fail(operation, path):
    if operation == "read":
        raise OSError(errno.EIO, "broken")


@pytest.mark.parametrize("at", ["decision", "reading"])
def test_an_unreadable_partition_is_an_error_and_others_are_returned(desk, at):
    desk.archive_all()
    desk = desk.restart()
    desk.ask(fetch(0), VERSION)  # so that the content of the segment is known
    produce(desk, 1)
    desk.files.is_cold = at == "reading"
    desk.broker.topic_metrics = counted = Counted()
    request = fetch(0, (1, 3), max_bytes=2 << 20)
    if at == "decision":
        desk.files.before = fail
        result = desk.decide(request, VERSION)
        assert isinstance(result, Send)
    else:
        result = desk.decide(request, VERSION)
        assert isinstance(result, Parked)
        assert result.response_bytes == 3 * SIZE
        desk.files.before = fail
    failed, read = desk.finish(request, VERSION, result).responses[0].partitions
    assert (failed.error_code, failed.high_watermark, failed.records) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, b"")
    assert (read.error_code, len(read.records)) == (0, SIZE)
    assert sorted(counted.told, key=str) == [[0, 1], "t"]


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
@pytest.mark.parametrize("is_cold", [False, True])
def test_an_unreadable_partition_has_an_error_that_a_client_of_the_version_retries(desk, version, code, is_cold):
    desk.archive_all()
    desk = desk.restart()
    desk.ask(fetch(0), version)  # so that the content of the segment is known
    desk.files.is_cold = is_cold
    request = fetch(0)
    if not is_cold:
        desk.files.before = fail
    result = desk.decide(request, version)
    desk.files.before = fail
    (failed,) = desk.finish(request, version, result).responses[0].partitions
    assert failed.error_code == code


def test_each_partition_that_a_fetch_looks_at_is_counted(desk):
    desk.broker.topic_metrics = counted = Counted()
    desk.ask(fetch(0, 9), VERSION)
    assert counted.told == [[0, None]]


def replica(desk, replica_id, version, **fields):
    request = fetch(0)
    if version < 15:
        request.replica_id = replica_id
    else:
        request.replica_state = FetchRequest.ReplicaState(replica_id, -1)
    request.topics[0].partitions[0].current_leader_epoch = fields.get("epoch", -1)
    request.topics[0].topic_id = desk.broker.topics.get("t").topic_id
    answer = desk.ask(request, version)
    return answer.responses[0].partitions[0], answer.node_endpoints


@pytest.mark.parametrize("version", [12, 14, 15, 17])
@pytest.mark.parametrize("replica_id", [0, 1])
def test_a_broker_that_follows_is_refused_because_there_is_one_broker(desk, replica_id, version):
    found, endpoints = replica(desk, replica_id, version)
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica(desk, replica_id, version, epoch=0)[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert replica(desk, -1, version)[0].error_code == 0
    assert replica(desk, -2, version)[0].error_code == 0
    assert list(endpoints) == []  # brokers know each other


@pytest.mark.parametrize("version", [16, 17])
def test_a_client_with_a_stale_leader_receives_the_current_one(desk, version):
    """KIP-951: from version 16, with its address, unless the listener is not advertised."""
    node = desk.broker.config.node_id

    def fenced():
        request = fetch(0, 1)
        request.topics[0].topic_id = desk.broker.topics.get("t").topic_id
        request.topics[0].partitions[0].current_leader_epoch = -2
        return desk.ask(request, version)

    answer = fenced()
    wrong, right = answer.responses[0].partitions
    assert wrong.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (wrong.current_leader.leader_id, wrong.current_leader.leader_epoch) == (node, 0)
    assert (right.error_code, right.current_leader.leader_id) == (0, -1)
    assert [attrs.astuple(it)[:3] for it in answer.node_endpoints] == [(node, "broker.test", 9092)]
    desk.advertised.clear()
    answer = fenced()
    assert answer.responses[0].partitions[0].current_leader.leader_id == node
    assert list(answer.node_endpoints) == []


def test_without_a_stale_leader_no_leader_is_sent(desk):
    request = fetch(0, (1, 99))
    request.topics[0].topic_id = desk.broker.topics.get("t").topic_id
    answer = desk.ask(request, 16)
    assert [it.current_leader.leader_id for it in answer.responses[0].partitions] == [-1, -1]
    assert list(answer.node_endpoints) == []


def session_fetch(desk, session_id, epoch, *partitions, offset=0):
    request = fetch(*partitions, offset=offset)
    request.session_id, request.session_epoch = session_id, epoch
    if not partitions:
        request.topics = []
    return desk.ask(request, VERSION)


@pytest.mark.parametrize("is_cold", [False, True], ids=["cached", "from the disk"])
def test_a_session_receives_partitions_with_records_or_errors_again(desk, is_cold):
    if is_cold:
        desk.archive_all()
        desk = desk.restart()
        desk.files.is_cold = True
    session = session_fetch(desk, 0, 0, 0, (1, 3), (2, 99)).session_id
    assert session
    listed = session_fetch(desk, session, 1).responses[0].partitions
    assert [(it.partition_index, it.error_code) for it in listed] == [(0, 0), (2, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert sum(map(len, [listed[0].records])) == 3 * SIZE


def test_partitions_of_one_topic_share_an_entry_and_topics_keep_their_order(desk):
    desk.create_topic("u")
    request = fetch(0, 1)
    request.topics.append(FetchRequest.FetchTopic("u", partitions=[FetchRequest.FetchPartition(0)]))
    answer = desk.ask(request, VERSION)
    assert [(it.topic, [part.partition_index for part in it.partitions]) for it in answer.responses] == [
        ("t", [0, 1]),
        ("u", [0]),
    ]


@pytest.mark.parametrize("arrives", [False, True])
def test_records_that_arrive_between_the_turns_of_a_fetch_count_before_it_waits(desk, monkeypatch, arrives):
    """Partitions that it has already read may have new records; it must not wait for those."""
    monkeypatch.setattr(fetching, "READ_COST", 10**6)
    request = fetch((0, 3), (1, 3), max_wait_ms=500)
    result = desk.decide(request, VERSION)
    assert isinstance(result, Unfinished)
    monkeypatch.undo()
    if arrives:
        produce(desk, 0)
        assert sizes(desk.finish(request, VERSION, result)) == [SIZE, 0]
    else:
        assert desk.do_steps(result) is PARKED


@pytest.mark.parametrize(("read_cost", "turns_min"), [(0, 1), (10**6, 3)])
def test_records_that_arrive_between_turns_of_a_large_fetch_are_in_its_answer(desk, monkeypatch, read_cost, turns_min):
    """Also between the reads and the wait, which has its own turn for many partitions."""
    monkeypatch.setattr(fetching, "ANSWERED_IN_A_TURN", 1)
    monkeypatch.setattr(fetching, "READ_COST", read_cost)
    turns = 0
    result = desk.decide(fetch((0, 3), (1, 3), max_wait_ms=500), VERSION)
    while isinstance(result, Unfinished):
        turns, result = turns + 1, go_on(result.steps)
    assert result is PARKED
    assert turns >= turns_min, "one for each expensive read, and one before the wait"
    desk.dispatcher.connection_closed(desk.connection.session)
    for arrives_in in range(turns):
        request = fetch((0, 3 + arrives_in), (1, 3), max_wait_ms=500)
        result = desk.decide(request, VERSION)
        for _ in range(arrives_in):
            result = go_on(result.steps)
        produce(desk, 0)
        assert sizes(desk.finish(request, VERSION, result)) == [SIZE, 0], arrives_in


def test_a_long_answer_is_made_in_steps(desk, monkeypatch):
    monkeypatch.setattr(fetching, "ANSWERED_IN_A_TURN", 2)
    assert isinstance(desk.decide(fetch(0, 1), VERSION), Send)
    request = fetch(0, 1, 2)
    assert sizes(desk.finish(request, VERSION, desk.decide(request, VERSION))) == [3 * SIZE] * 3


def test_a_partition_without_a_limit_of_its_own_never_waits_for_more_than_a_byte(desk):
    assert isinstance(desk.decide(fetch(0, partition_max_bytes=0, max_wait_ms=500), VERSION), Send)
    assert desk.decide(fetch((0, 3), partition_max_bytes=0, max_wait_ms=500), VERSION) is PARKED
    assert desk.decide(fetch(0, partition_max_bytes=0, min_bytes=2, max_wait_ms=500), VERSION) is PARKED


def test_a_wait_of_a_millisecond_is_a_wait(desk):
    assert desk.decide(fetch((0, 3), max_wait_ms=1), VERSION) is PARKED
    assert isinstance(desk.decide(fetch((0, 3), max_wait_ms=0), VERSION), Send)
    assert isinstance(desk.decide(fetch((0, 3), max_wait_ms=-1), VERSION), Send)


def test_partitions_read_from_disk_share_the_total_limit(desk):
    desk.archive_all()
    desk = desk.restart()
    desk.files.is_cold = True
    assert sizes(desk.ask(fetch(0, 1, 2, partition_max_bytes=SIZE, max_bytes=2 * SIZE), VERSION)) == [SIZE, SIZE, 0]
    assert sizes(desk.ask(fetch(0, 1, 2, partition_max_bytes=3 * SIZE, max_bytes=3 * SIZE), VERSION)) == [
        3 * SIZE,
        0,
        0,
    ]


def test_a_missing_partition_lists_no_aborted_transactions(desk):
    for partition, expected in ((9, []), (0, None)):
        (found,) = desk.ask(fetch(partition), VERSION).responses[0].partitions
        assert found.aborted_transactions == expected


@pytest.mark.parametrize(("version", "is_whole"), [(6, False), (7, True), (12, True)])
def test_a_top_level_error_is_used_if_the_version_has_one(desk, version, is_whole):
    response = fetching.error_response(fetch(0, 1), desk.call(ApiKey.FETCH, version), ErrorCode.INVALID_REQUEST)
    told = [it.error_code for topic in response.responses for it in topic.partitions]
    assert (response.error_code, told) == (
        (ErrorCode.INVALID_REQUEST, []) if is_whole else (0, [ErrorCode.INVALID_REQUEST] * 2)
    )
