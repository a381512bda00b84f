"""Fetches that no real client sends: unknown sessions, too many of them, endless waits."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from stages.request import PARKED
from tests.apis.desk import Desk
from tests.tables import each_row

VERSION = 12
FOREVER_MS = 2**31 - 1
FULL, CLOSE = 0, -1
TIMES = [(timestamp, version) for timestamp in range(-7, 1) for version in (1, 6, 7, 8, 9, 10, 11)]


@pytest.fixture
def desk():
    desk = Desk("max.incremental.fetch.session.cache.slots=50")
    desk.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 2, 1)], 1000), 5)
    return desk


def produce(desk):
    partition = ProduceRequest.PartitionProduceData(0, build_batch([NewRecord(b"value", None, 0)]))
    request = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=[partition])])
    assert desk.ask(request, 9).responses[0].partition_responses[0].error_code == 0


def fetch(session_id, epoch, *partitions, forgotten=(), **fields):
    wanted = [FetchRequest.FetchPartition(index, partition_max_bytes=1 << 20) for index in partitions]
    request = FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        max_bytes=1 << 20,
        topics=[FetchRequest.FetchTopic("t", partitions=wanted)] if partitions else [],
        forgotten_topics_data=[FetchRequest.ForgottenTopic("t", partitions=list(forgotten))] if forgotten else [],
        **fields,
    )
    request.max_wait_ms = fields.get("max_wait_ms", 0)
    return request


def shown(answer):
    return [part.partition_index for topic in answer.responses for part in topic.partitions]


@pytest.mark.parametrize("epoch", [1, 2, 2**31 - 1])
def test_an_unknown_session_is_error_70(desk, epoch):
    assert desk.ask(fetch(77, epoch), VERSION).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 5, -2, 2**31 - 1])
def test_a_session_with_another_epoch_is_71_and_stays(desk, epoch):
    session = desk.ask(fetch(0, FULL, 0), VERSION).session_id
    assert session
    assert desk.ask(fetch(session, epoch), VERSION).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert desk.ask(fetch(session, 1), VERSION).error_code == 0


def test_forgotten_partitions_are_not_fetched_and_unknown_ones_may_be_forgotten(desk):
    session = desk.ask(fetch(0, FULL, 0, 1), VERSION).session_id
    produce(desk)
    assert shown(desk.ask(fetch(session, 1, forgotten=[0, 9]), VERSION)) == []
    assert shown(desk.ask(fetch(session, 2, 0), VERSION)) == [0], "it may come back"


def test_ten_thousand_sessions_are_as_many_as_there_are_slots(desk):
    """Fetches without a free slot are served without a session."""
    told = [desk.ask(fetch(0, FULL, 0), VERSION) for _ in range(10_000)]
    assert {answer.error_code for answer in told} == {0}
    assert sum(answer.session_id != 0 for answer in told) == 50
    assert {shown(answer)[0] for answer in told} == {0}


def test_an_endless_wait_ends_when_records_arrive(desk):
    assert desk.decide(fetch(0, CLOSE, 0, min_bytes=1, max_wait_ms=FOREVER_MS), VERSION) is PARKED
    desk.now_ms += 10_000_000
    desk.broker.advance(desk.now_ms)
    assert desk.connection.completed == []
    produce(desk)
    assert len(desk.connection.completed) == 1


@pytest.mark.parametrize("fields", [{"min_bytes": 2**31 - 1, "max_wait_ms": 0}, {"min_bytes": -1, "max_wait_ms": -1}])
def test_invalid_limits_are_answered_at_once(desk, fields):
    produce(desk)
    assert desk.ask(fetch(0, CLOSE, 0, **fields), VERSION).error_code == 0


@each_row("timestamp, version", TIMES, [f"{timestamp} in {version}" for timestamp, version in TIMES])
def test_every_special_time_is_answered_or_35(desk, timestamp, version):
    produce(desk)
    partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp)
    answer = desk.ask(ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic("t", [partition])]), version)
    first_version = {-3: 7, -4: 8, -5: 9, -6: 11, -7: 99}.get(timestamp, 1)
    expected = ErrorCode.NONE if version >= first_version else ErrorCode.UNSUPPORTED_VERSION
    assert answer.topics[0].partitions[0].error_code == expected
