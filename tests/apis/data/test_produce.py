"""What is appended is committed, whatever goes wrong with the answer."""

import logging

import pytest

from pipeline_broker.apis import produce_template
from pipeline_broker.apis.data import produce
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.errors import CHECKSUM
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from stages.request import NO_OP, Close, Pending, Send, Unfinished
from tests.apis.desk import Connection, Desk

VERSION = 9


@pytest.fixture
def desk():
    desk = Desk("num.partitions=2")
    broker = desk.broker
    result = broker.commit_metadata([(broker.topics.create(broker.new_topic("t")), broker.topic_durable)], 0, NO_OP)
    desk.commit(list(result.entries))
    result.on_durable()
    return desk


def request(value, *partitions, acks=-1):
    data = [
        ProduceRequest.PartitionProduceData(index, build_batch([NewRecord(value, None, 0)])) for index in partitions
    ]
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])


def lengths(desk):
    return [(log.high_watermark, log.log_end_offset) for log in desk.broker.logs.partitions("t")]


def broken(*_):
    raise RuntimeError("a bug")


@pytest.mark.parametrize("acks", [-1, 0])
def test_an_answer_that_fails_leaves_what_was_appended_to_be_committed(desk, monkeypatch, caplog, acks):
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(produce, "_count", broken)
    result = desk.decide(request(b"1", 0, 1, acks=acks), VERSION)
    assert isinstance(result, Pending)
    assert isinstance(result.result, Close)
    assert len(result.entries) == 2
    desk.commit(list(result.entries))
    assert lengths(desk) == [(1, 1), (1, 1)]
    monkeypatch.undo()
    desk.ask(request(b"2", 0, 1), VERSION)
    again = desk.restart()
    assert lengths(again) == [(2, 2), (2, 2)]


def test_the_same_holds_on_the_short_way(desk, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)
    for value in (b"1", b"2"):
        desk.ask(request(value, 0), VERSION)
    (template,) = desk.connection.session.produce_templates._by_prefix.values()
    monkeypatch.setattr(template, "pack", broken)
    result = desk.decide(request(b"3", 0), VERSION)
    assert isinstance(result.result, Close)
    desk.commit(list(result.entries))
    again = desk.restart()
    assert lengths(again)[0] == (3, 3)


def test_what_was_not_appended_is_refused_as_ever(desk, monkeypatch, caplog):
    """The second partition is never reached: only the first one's batch is committed."""
    caplog.set_level(logging.CRITICAL)
    appended = []
    original = produce._append

    def append_once(call, batch, admission):
        if appended:
            raise RuntimeError("a bug")
        appended.append(batch.data.index)
        return original(call, batch, admission)

    monkeypatch.setattr(produce, "_append", append_once)
    result = desk.decide(request(b"1", 0, 1), VERSION)
    assert [entry.log.partition for entry in result.entries] == [0]
    desk.commit(list(result.entries))
    assert lengths(desk) == [(1, 1), (0, 0)]
    assert desk.ask(FetchRequest(topics=[]), 12).error_code == 0


def test_templates_are_bounded_on_a_connection_and_on_all_together_and_go_with_their_connection(desk, monkeypatch):
    for partition in (0, 0, 1, 1):
        desk.ask(request(b"1", partition), VERSION)
    assert desk.broker.produce_templates == 2
    session = desk.connection.session

    desk.connection = Connection()
    monkeypatch.setattr(produce_template, "TEMPLATES_OF_ALL_MAX", 3)
    for partition in (0, 1):
        desk.ask(request(b"2", partition), VERSION)
    assert desk.broker.produce_templates == 3
    desk.dispatcher.connection_closed(session)
    assert desk.broker.produce_templates == 1

    monkeypatch.setattr(produce_template, "TEMPLATES_MAX", 1)
    desk.ask(request(b"3", 1), VERSION)
    assert desk.broker.produce_templates == 1
    desk.dispatcher.connection_closed(desk.connection.session)
    assert desk.broker.produce_templates == 0
    assert lengths(desk) == [(3, 3), (4, 4)]


def idempotent(sequence, *partitions, acks=-1):
    batch = build_batch([NewRecord(b"1", None, 0)], producer_id=7, producer_epoch=0, base_sequence=sequence)
    data = [ProduceRequest.PartitionProduceData(index, batch) for index in partitions]
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])


def test_a_duplicate_is_not_answered_before_its_original_is_durable(desk):
    """The answer promises what a power cut would take away: so it waits, with no entry of its own."""
    original = desk.decide(idempotent(0, 0), VERSION)
    assert desk.connection.session.produce_templates is not None  # so what follows takes the short way
    again = idempotent(0, 0)
    duplicate = desk.decide(again, VERSION)
    assert isinstance(duplicate, Pending)
    assert not duplicate.entries
    answer = desk.finish(again, VERSION, duplicate).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, original.entries[0].base_offset)
    desk.commit(list(original.entries))
    assert isinstance(desk.decide(again, VERSION), Send)


def test_of_several_batches_one_duplicate_on_its_way_makes_the_answer_wait(desk):
    desk.ask(idempotent(0, 1), VERSION)
    desk.decide(idempotent(0, 0), VERSION)
    duplicates = desk.decide(idempotent(0, 0, 1), VERSION)
    assert isinstance(duplicates, Pending)
    assert not duplicates.entries
    assert isinstance(desk.decide(idempotent(0, 1), VERSION), Send)  # the other one alone


def test_what_a_failed_produce_left_out_makes_room_for_nothing_that_its_producer_sent_behind_it(desk, monkeypatch):
    """Invariant 7: the first batch of a partition was refused, so the second, with which it could begin, is, too."""
    monkeypatch.setattr(logging.getLogger(produce.__name__), "disabled", True)
    original = produce._append

    def append_first(call, batch, admission):
        if batch.data.index:
            raise RuntimeError("a bug")
        return original(call, batch, admission)

    monkeypatch.setattr(produce, "_append", append_first)
    desk.commit(list(desk.decide(idempotent(0, 0, 1), VERSION).entries))
    monkeypatch.setattr(produce, "_append", original)
    answers = desk.ask(idempotent(1, 0, 1), VERSION).responses[0].partition_responses
    assert [ErrorCode(it.error_code).name for it in answers] == ["NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert lengths(desk) == [(2, 2), (0, 0)]


@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)], ids=["in the first partition", "in the last"])
def test_one_batch_of_a_transaction_makes_the_whole_request_transactional(desk, partitions):
    """CVE-2018-17196: who may write it is asked of the transaction, wherever in the request its batch stands."""
    in_transaction = build_batch(
        [NewRecord(b"1", None, 0)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    batches = dict(zip(partitions, (in_transaction, build_batch([NewRecord(b"1", None, 0)])), strict=True))
    data = [ProduceRequest.PartitionProduceData(index, batches[index]) for index in (0, 1)]
    topic = ProduceRequest.TopicProduceData("t", partition_data=data)
    answers = desk.ask(ProduceRequest(None, -1, 0, [topic]), VERSION).responses[0].partition_responses
    assert [ErrorCode(it.error_code).name for it in answers] == ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"] * 2
    assert lengths(desk) == [(0, 0), (0, 0)]


def answers(desk, message, version=VERSION):
    found = desk.ask(message, version).responses[0].partition_responses
    return [ErrorCode(it.error_code).name for it in found]


@pytest.mark.parametrize(("version", "expected"), [(6, "UNSUPPORTED_COMPRESSION_TYPE"), (7, "NONE")])
def test_zstandard_is_taken_from_version_7_on(desk, version, expected):
    batch = build_batch([NewRecord(b"1", None, 0)], compression=4)
    for _ in range(2):  # the second one on the short way, where there is one
        data = [ProduceRequest.PartitionProduceData(0, batch)]
        message = ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData("t", partition_data=data)])
        assert answers(desk, message, version) == [expected]


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_is_named_up_to_version_12_and_has_its_id_from_13_on(desk, version):
    message = request(b"1", 0)
    assert answers(desk, message, version) == ["NONE" if version == 12 else "UNKNOWN_TOPIC_ID"]
    message.topic_data[0].topic_id = desk.broker.topics.get("t").topic_id
    message.topic_data[0].name = "t" if version == 12 else ""
    assert answers(desk, message, version) == ["NONE"]
    assert lengths(desk)[0] == ((2, 2) if version == 12 else (1, 1))


@pytest.mark.parametrize("version", [12, 13])
def test_a_refused_request_leaves_a_gap_in_the_partitions_that_it_names(desk, version):
    """So that what its producers sent behind it is refused, too; others are not concerned."""

    def named(message):
        message.topic_data[0].topic_id = desk.broker.topics.get("t").topic_id
        return message

    message = named(idempotent(0, 0, 1))
    message.topic_data[0].partition_data[1].records = b"nonsense" * 10  # a header that cannot be: all are refused
    assert answers(desk, message, version) == ["CORRUPT_MESSAGE"] * 2
    assert answers(desk, named(idempotent(1, 0, 1)), version) == ["OUT_OF_ORDER_SEQUENCE_NUMBER", "NONE"]


@pytest.mark.parametrize("empty", [None, b""])
@pytest.mark.parametrize("place", [0, 1])
def test_a_partition_without_records_is_refused_alone(desk, empty, place):
    message = request(b"1", 0, 1)
    message.topic_data[0].partition_data[place].records = empty
    codes = answers(desk, message)
    assert codes[1 - place] == "NONE"
    assert codes[place] != "NONE"
    assert lengths(desk)[1 - place] == (1, 1)


def test_a_long_answer_is_made_in_steps(desk, monkeypatch):
    monkeypatch.setattr(produce, "ANSWERED_IN_A_TURN", 1)
    assert isinstance(desk.decide(request(b"1", 0), VERSION), Pending)
    message = request(b"2", 0, 1)
    result = desk.decide(message, VERSION)
    assert isinstance(result, Unfinished)
    answer = desk.finish(message, VERSION, result)
    assert [it.error_code for it in answer.responses[0].partition_responses] == [0, 0]


class Counted:
    """Takes the place of the metrics of topics, and keeps what it is told."""

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda *arguments, **more: self.told.append((name, *arguments, *more.values()))


def test_refusals_are_counted_with_what_kafka_counts_as_a_failure(desk):
    desk.broker.topic_metrics = counted = Counted()
    answers(desk, request(b"1", 0, 9))
    assert counted.told == [("produce_refused", None)]
    counted.told.clear()
    broken_batch = bytearray(build_batch([NewRecord(b"1", None, 0)]))
    broken_batch[-1] ^= 1
    message = request(b"1", 0, 1)
    message.topic_data[0].partition_data[0].records = bytes(broken_batch)
    assert answers(desk, message) == ["CORRUPT_MESSAGE", "NONE"]
    assert [it[:2] for it in counted.told] == [("produce_refused", "t"), ("records_faulty", CHECKSUM)]
    assert counted.told[0][2] is False
    counted.told.clear()
    desk.decide(idempotent(0, 0), VERSION)
    assert answers(desk, idempotent(5, 0)) == ["OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert counted.told == [("produce_refused", "t", True)]
    counted.told.clear()
    large = build_batch([NewRecord(bytes(2 << 20), None, 0)])
    message = request(b"1", 0)
    message.topic_data[0].partition_data[0].records = large
    assert answers(desk, message) == ["MESSAGE_TOO_LARGE"]
    assert counted.told == [("produce_refused", "t", False), ("bytes_rejected", "t", len(large))]
