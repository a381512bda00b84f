"""Produce requests that take several turns: long batches, and very many partitions."""

import logging

import pytest

from pipeline_broker.apis.data import produce
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.broker import LONG_BATCHES_MAX
from pipeline_broker.records import record_walk
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.compression import Compression
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from stages.request import Close, Parked, Pending, Unfinished, Waiting, go_on
from tests.apis.desk import Desk
from tests.apis.transactions.transaction_desk import SETTINGS, TRANSACTION, Producer

VERSION = 9
PARTITIONS = 40


@pytest.fixture
def desk():
    desk = Desk()
    topic = CreateTopicsRequest.CreatableTopic("t", PARTITIONS, 1)
    assert desk.ask(CreateTopicsRequest(topics=[topic]), 4).topics[0].error_code == 0
    return desk


@pytest.fixture
def short_turns(monkeypatch):
    """Batches of more than three records are long, and every second partition ends a turn."""
    monkeypatch.setattr(record_walk, "RECORDS_A_TURN", 3)
    monkeypatch.setattr("pipeline_broker.apis.call.TURN_COST", produce.APPEND_COST)


def request(*batches, acks=-1):
    """A request with the n-th batch for partition n."""
    data = [ProduceRequest.PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])


def batch_of(count=1, timestamp=0, sequence=-1, **options):
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
    return build_batch([NewRecord(b"v", timestamp=timestamp)] * count, **producer, **options)


def codes(answer):
    return [each.error_code for topic in answer.responses for each in topic.partition_responses]


def end_offsets(desk, count=1):
    return [log.log_end_offset for log in desk.broker.logs.partitions("t")[:count]]


def step(result):
    """Run one step, with the work of threads in place."""
    return go_on(result.steps, result.first.work() if type(result.first) is Parked else None)


def committed_once(desk, message):
    """The remaining steps of a request whose first commit is durable."""
    result = desk.decide(message, VERSION)
    while not isinstance(result.first, Pending):
        result = step(result)
    desk.commit(list(result.first.entries))
    return result


def until_waiting(result):
    """Run steps until the request is checked or waits for its place."""
    while type(result) is Unfinished and type(result.first) is not Waiting:
        result = step(result)
    return result


def test_a_batch_of_a_million_records_is_accepted_in_many_turns():
    desk, count = Desk("message.max.bytes=20000000"), 1_000_000
    desk.create_topic("t")
    message = request(batch_of(count, compression=Compression.ZSTD))
    result, turns = desk.decide(message, VERSION), 1
    while isinstance(result, Unfinished):
        result, turns = step(result), turns + 1
    assert turns > count / record_walk.RECORDS_A_TURN
    assert codes(desk.finish(message, VERSION, result)) == [0]
    assert end_offsets(desk) == [count]
    assert len(desk.broker.long_batches) == 0


@pytest.mark.parametrize("codec", Compression)
def test_a_long_batch_is_answered_as_a_short_one(desk, codec, short_turns):
    for count in (1, 3, 4, 10):
        answer = desk.ask(request(batch_of(count, compression=codec)), VERSION)
        assert codes(answer) == [0]
    assert end_offsets(desk) == [18]
    too_late = batch_of(10, timestamp=desk.now_ms + 10**10, compression=codec)
    answer = desk.ask(request(too_late), VERSION)
    assert codes(answer) == [ErrorCode.INVALID_TIMESTAMP]
    assert len(answer.responses[0].partition_responses[0].record_errors) == 10
    assert len(desk.broker.long_batches) == 0


def test_long_batches_checked_at_a_time_are_limited(desk, short_turns):
    begun = [desk.decide(request(batch_of(10)), VERSION) for _ in range(LONG_BATCHES_MAX + 2)]
    assert [type(each.first) for each in begun] == [Parked] * LONG_BATCHES_MAX + [Waiting] * 2
    woken = []
    for number, each in enumerate(begun[LONG_BATCHES_MAX:]):
        each.first.when_over(lambda number=number: woken.append(number))
    finished = until_waiting(begun[0])
    assert isinstance(finished, Pending)
    assert woken == [0]


def test_a_place_is_given_back_where_the_connection_is_closed_or_the_batch_is_refused(desk, short_turns):
    begun = [desk.decide(request(batch_of(10)), VERSION) for _ in range(LONG_BATCHES_MAX + 3)]
    woken = []
    for number, each in enumerate(begun[LONG_BATCHES_MAX:]):
        each.first.when_over(lambda number=number: woken.append(number))
    begun[LONG_BATCHES_MAX].steps.close()
    begun[0].steps.close()
    assert woken == [1], "a closed request does not wait any more"
    for each in begun:
        each.steps.close()
    assert len(desk.broker.long_batches) == 0
    damaged = bytearray(batch_of(10, compression=Compression.GZIP))
    assert codes(desk.ask(request(bytes(damaged[:-1])), VERSION)) == [ErrorCode.INVALID_RECORD]
    assert len(desk.broker.long_batches) == 0


def test_batches_of_many_partitions_are_appended_in_several_commits(desk, short_turns):
    message = request(*[batch_of()] * PARTITIONS)
    result, commits = desk.decide(message, VERSION), 0
    while isinstance(result, Unfinished):
        if isinstance(result.first, Pending):
            commits += 1
            assert result.first.entries, "nothing is waited for where nothing was appended"
            desk.commit(list(result.first.entries))
        result = step(result)
    assert commits == PARTITIONS
    assert codes(desk.finish(message, VERSION, result)) == [0] * PARTITIONS
    assert end_offsets(desk, PARTITIONS) == [1] * PARTITIONS


@pytest.mark.parametrize("answered_in_a_turn", [1, 1_000])
def test_refused_batches_of_many_partitions_wait_for_no_commit(desk, short_turns, monkeypatch, answered_in_a_turn):
    monkeypatch.setattr(produce, "ANSWERED_IN_A_TURN", answered_in_a_turn)
    message = request(*[b"nonsense"] * PARTITIONS)
    result = desk.decide(message, VERSION)
    while isinstance(result, Unfinished):
        assert not isinstance(result.first, Pending)
        result = step(result)
    assert codes(desk.finish(message, VERSION, result)) == [ErrorCode.INVALID_RECORD] * PARTITIONS


def test_a_topic_deleted_between_turns_gets_no_more_records(desk, short_turns):
    message = request(*[batch_of()] * PARTITIONS)
    result = committed_once(desk, message)
    assert desk.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 4).responses[0].error_code == 0
    answer = desk.finish(message, VERSION, step(result))
    assert codes(answer) == [0] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (PARTITIONS - 1)


def test_a_topic_recreated_between_turns_gets_no_records_of_its_predecessor(desk, short_turns):
    """Neither does the deleted log, whose records would be acknowledged and lost."""
    message = request(*[batch_of()] * PARTITIONS)
    result = committed_once(desk, message)
    assert desk.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 4).responses[0].error_code == 0
    topic = CreateTopicsRequest.CreatableTopic("t", PARTITIONS, 1)
    assert desk.ask(CreateTopicsRequest(topics=[topic]), 4).topics[0].error_code == 0
    desk.connection.completed.clear()
    answer = desk.finish(message, VERSION, step(result))
    assert codes(answer) == [0] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (PARTITIONS - 1)
    assert end_offsets(desk, PARTITIONS) == [0] * PARTITIONS


def test_nothing_is_appended_once_the_journal_cannot_be_written(desk, short_turns):
    message = request(*[batch_of(sequence=0)] * PARTITIONS)
    result = committed_once(desk, message)
    desk.journal.room.obstacle = OSError("no space")
    answer = desk.finish(message, VERSION, step(result))
    assert codes(answer) == [0] + [ErrorCode.KAFKA_STORAGE_ERROR] * (PARTITIONS - 1)
    assert end_offsets(desk, PARTITIONS) == [1] + [0] * (PARTITIONS - 1)
    desk.journal.room.obstacle = None
    next_one = request(*[batch_of(sequence=1)] * PARTITIONS)
    assert codes(desk.ask(next_one, VERSION)) == [0] + [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * (PARTITIONS - 1)


def test_batches_checked_before_the_journal_became_unwritable_are_refused(desk, short_turns):
    message = request(batch_of(10))
    result = desk.decide(message, VERSION)
    desk.journal.room.obstacle = OSError("no space")
    assert codes(desk.finish(message, VERSION, result)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert end_offsets(desk) == [0]


def test_a_request_that_fails_after_a_commit_has_no_answer(desk, short_turns, monkeypatch, caplog):
    """Appended batches cannot be answered as refused, and later batches of their producers are accepted."""
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(produce, "_count", lambda *_: 1 / 0)
    result = desk.decide(request(*[batch_of(sequence=0)] * 3), VERSION)
    while isinstance(result, Unfinished):
        if isinstance(result.first, Pending):
            desk.commit(list(result.first.entries))
        result = step(result)
    assert isinstance(result, Pending)
    assert isinstance(result.result, Close)
    monkeypatch.undo()
    assert codes(desk.ask(request(*[batch_of(sequence=1)] * 3), VERSION)) == [0] * 3


@pytest.mark.parametrize("answered_in_a_turn", [0, 1_000])
@pytest.mark.parametrize("is_transaction", [False, True])
def test_entries_are_submitted_in_the_turn_that_appended_them(monkeypatch, is_transaction, answered_in_a_turn):
    """Otherwise other entries would be written first, or a closed connection would lose them.

    This holds wherever turns end. Entries of a transaction come first, once.
    """
    monkeypatch.setattr(produce, "ANSWERED_IN_A_TURN", answered_in_a_turn)
    desk = Desk(*SETTINGS)
    desk.create_topic("t")
    desk.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"]), 4)
    producer = Producer(desk)
    for turn_cost in range(1, 45):
        monkeypatch.setattr("pipeline_broker.apis.call.TURN_COST", turn_cost)
        message = producer.produce(0, 1, transactional=is_transaction)
        result, commits = desk.decide(message, 12), []
        while True:
            pending = result.first if type(result) is Unfinished else result
            if type(pending) is Pending:
                commits += [entry.log.topic for entry in pending.entries]
                desk.submit(pending.entries, pending.on_durable or (lambda: None))
            assert all(log.high_watermark == log.log_end_offset for log in desk.broker.logs.partitions("t")), turn_cost
            if type(result) is not Unfinished:
                break
            result = step(result)
        assert codes(desk.finish(message, 12, result.result)) == [0, 0]
        if is_transaction:
            assert commits == ["__transaction_state", "t", "t"]
            monkeypatch.undo()
            monkeypatch.setattr(produce, "ANSWERED_IN_A_TURN", answered_in_a_turn)
            assert producer.ended() == 0


def test_transaction_entries_are_committed_although_their_request_failed(monkeypatch, caplog):
    """Otherwise the coordinator would know a partition that no record contains."""
    caplog.set_level(logging.CRITICAL)
    desk = Desk(*SETTINGS)
    desk.create_topic("t")
    desk.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"]), 4)
    message = Producer(desk).produce(0)
    monkeypatch.setattr(produce, "_append", lambda *_: 1 / 0)
    result = desk.decide(message, 12)
    assert isinstance(result.result, Close)
    assert [entry.log.topic for entry in result.entries] == ["__transaction_state"]


def test_a_partition_that_is_named_twice_is_answered_once_and_its_last_batch_counts(desk):
    """Apache Kafka keeps the batches of a request in a map."""
    topic = ProduceRequest.TopicProduceData
    data = ProduceRequest.PartitionProduceData
    message = ProduceRequest(
        acks=-1,
        topic_data=[
            topic("t", partition_data=[data(0, batch_of(1)), data(0, batch_of(2))]),
            topic("t", partition_data=[data(0, batch_of(3))]),
        ],
    )
    answer = desk.ask(message, VERSION)
    assert codes(answer) == [0]
    assert end_offsets(desk) == [3]
