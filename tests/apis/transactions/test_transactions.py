"""Transactions from request to response: joint commits, waits and rights.

Codes are those of Apache Kafka.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.list_transactions import ListTransactionsRequest
from stages.request import Pending, Send
from tests.apis.counted import Counted
from tests.apis.desk import Desk
from tests.apis.remembered import remembered
from tests.apis.transactions.transaction_desk import (
    ABORTABLE,
    INVALID_EPOCH,
    INVALID_STATE,
    NOT_ENOUGH_REPLICAS,
    SETTINGS,
    Producer,
    added,
    codes,
    logs_of,
    read,
    ready,
    state_of,
)
from tests.tables import each_row


@pytest.fixture
def desk():
    return ready(Desk(*SETTINGS))


def test_the_record_that_adds_a_partition_is_committed_before_its_data(desk):
    producer = Producer(desk)
    request = producer.produce(0, 1)
    result = desk.decide(request, 12)
    assert logs_of(result) == ["__transaction_state", "t", "t"]
    assert codes(desk.finish(request, 12, result)) == {0: 0, 1: 0}
    assert logs_of(desk.decide(producer.produce(0), 12)) == ["t"]


def test_an_end_is_one_commit_of_decision_markers_and_completion(desk):
    producer = Producer(desk)
    desk.ask(producer.produce(0, 1), 12)
    request = producer.end()
    result = desk.decide(request, 5)
    assert logs_of(result) == ["__transaction_state", "t", "t", "__transaction_state"]
    assert read(desk) == (0, [])
    assert state_of_undurable(desk) is Pending
    desk.finish(request, 5, result)
    assert read(desk) == (2, [])
    assert state_of(desk).transaction_state == "CompleteCommit"


def state_of_undurable(desk):
    return type(desk.decide(DescribeTransactionsRequest(["x"]), 0))


def test_undurable_transactions_are_not_visible(desk):
    producer = Producer(desk)
    results = [desk.decide(producer.produce(0), 12)]
    for request, version in (
        (DescribeTransactionsRequest(["x"]), 0),
        (ListTransactionsRequest(), 2),
        (producer.add(0), 3),
        (EndTxnRequest("x", producer.id, 77, committed=True), 5),
    ):
        results.append(desk.decide(request, version))
        assert isinstance(results[-1], Pending)
    for result in results:
        desk.submit(result.entries, result.on_durable or (lambda: None))
    assert isinstance(desk.decide(ListTransactionsRequest(), 2), Send)


def test_an_id_is_settled_when_the_last_of_its_records_is_durable(desk):
    producer = Producer(desk)
    for result in [desk.decide(producer.add(index), 3) for index in (0, 1)]:
        assert isinstance(desk.decide(DescribeTransactionsRequest(["x"]), 0), Pending)
        desk.submit(result.entries, result.on_durable)
    assert isinstance(desk.decide(DescribeTransactionsRequest(["x"]), 0), Send)


def test_an_undurable_record_is_written_again_with_data_that_needs_it(desk):
    """In classic mode commits without a common partition are written in any order."""
    producer = Producer(desk)
    assert logs_of(desk.decide(producer.add(0), 3)) == ["__transaction_state"]
    assert logs_of(desk.decide(producer.produce(0), 12)) == ["__transaction_state", "t"]


def test_a_batch_does_not_overtake_the_record_of_version_0_that_adds_its_partition(desk):
    producer = Producer(desk)
    desk.decide(producer.add(0), 3)
    assert codes(desk.ask(producer.produce(0), 11)) == {0: NOT_ENOUGH_REPLICAS}


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [0, 5])
def test_a_transaction_ends_for_readers_of_committed_records(desk, version, committed):
    producer = Producer(desk)
    if version < 5:
        assert added(desk.ask(producer.add(0), 3)) == [0]
    assert codes(desk.ask(producer.produce(0), 12 if version == 5 else 9)) == {0: 0}
    assert read(desk) == (0, [])
    assert producer.ended(committed=committed, version=version) == 0
    assert read(desk) == (2, [] if committed else [producer.id])
    assert read(desk, committed=False)[1] == []


@pytest.mark.parametrize(
    ("version", "code"), [(3, INVALID_STATE), (9, INVALID_STATE), (10, INVALID_STATE), (11, ABORTABLE)]
)
def test_a_batch_outside_of_a_transaction_is_refused(desk, version, code):
    producer = Producer(desk)
    desk.ask(producer.add(1), 3)
    desk.broker.topic_metrics = counted = Counted()
    assert codes(desk.ask(producer.produce(0), version)) == {0: code}
    assert counted.told == [("produce_refused", "t", False)]
    assert codes(desk.ask(producer.produce(1), version)) == {1: 0}


@pytest.mark.parametrize(("version", "code"), [(11, 0), (12, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_an_unknown_producer_begins_with_sequence_0_since_version_12(desk, version, code):
    producer = Producer(desk)
    desk.ask(producer.add(0), 3)
    producer.sequences[("t", 0), producer.epoch] = 5
    assert codes(desk.ask(producer.produce(0), version)) == {0: code}


def test_without_verification_it_is_appended_as_before_kafka_3_6(desk):
    """With any first sequence. It is still part of a transaction, so it must not take the fast path."""
    desk = ready(Desk(*SETTINGS, "transaction.partition.verification.enable=false"))
    producer = Producer(desk)
    producer.sequences[("t", 0), producer.epoch] = 5
    for _ in range(2):
        assert codes(desk.ask(producer.produce(0), 11)) == {0: 0}
    assert remembered(desk) == 0
    assert state_of(desk).transaction_state == "Empty"
    assert logs_of(desk.decide(producer.produce(1), 12)) == ["__transaction_state", "t"], "a batch adds its partition"


PLAIN = [NewRecord(b"1", None, 0)]
BESIDE = {
    "of no producer": (build_batch(PLAIN), 0),
    "of no transaction": (build_batch(PLAIN, producer_id=7, producer_epoch=0, base_sequence=0), 0),
    "of a transaction without a producer": (build_batch(PLAIN, transactional=True), 0),
    "of an earlier format": (bytes(8) + (20).to_bytes(4, "big") + bytes(4) + b"\1" + bytes(15), 87),
    "empty": (b"", 87),
    "null": (None, 87),
}


@each_row("batch, code", BESIDE.values(), BESIDE)
def test_of_the_batches_of_a_request_those_of_the_transaction_add_their_partitions(batch, code):
    """CVE-2018-17196: each batch counts by itself."""
    for place in (0, 1):
        desk = ready(Desk(*SETTINGS))
        producer = Producer(desk)
        request = producer.produce(1 - place)
        beside = ProduceRequest.PartitionProduceData(place, batch)
        request.topic_data[0].partition_data.insert(place, beside)
        assert codes(desk.ask(request, 12)) == {1 - place: 0, place: code}
        (topic,) = state_of(desk).topics
        assert (topic.topic, topic.partitions) == ("t", [1 - place])


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_fenced_producer_never_writes_again(desk, version):
    old = Producer(desk)
    desk.ask(old.add(0), 3)
    desk.ask(old.produce(0), version)
    new = Producer(desk)
    assert new.epoch > old.epoch
    for partition in (0, 1):
        assert codes(desk.ask(old.produce(partition), version)) == {partition: INVALID_EPOCH}
    assert old.ended(version=5) == ErrorCode.PRODUCER_FENCED
    assert old.ended(version=1) == INVALID_EPOCH
    assert added(desk.ask(old.add(0), 1)) == [INVALID_EPOCH]
    assert added(desk.ask(old.add(0), 2)) == [ErrorCode.PRODUCER_FENCED]


def test_one_request_is_of_one_producer(desk):
    producer, other = Producer(desk), Producer(desk, "y")
    request = producer.produce(0)
    request.topic_data[0].partition_data += other.produce(1).topic_data[0].partition_data
    assert codes(desk.ask(request, 12)) == dict.fromkeys((0, 1), ErrorCode.INVALID_PRODUCER_ID_MAPPING)


@pytest.mark.parametrize("name", [None])
def test_a_batch_that_claims_to_be_of_no_transaction_is_refused(desk, name):
    """CVE-2018-17196: the batches decide, not the request."""
    producer = Producer(desk)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert codes(desk.ask(producer.produce(0, name=name), 12)) == {0: refused}


def test_the_fast_path_of_produce_accepts_no_transactional_batch(desk):
    """Its requests equal other ones up to the records."""
    producer = Producer(desk)
    plain = producer.produce(0, transactional=False)
    for _ in range(2):
        plain = producer.produce(0, transactional=False, name=None)
        assert codes(desk.ask(plain, 9)) == {0: 0}
    assert desk.connection.session.produce_templates is not None
    assert codes(desk.ask(producer.produce(0, name=None), 9)) == {0: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


def test_pipelined_batches_keep_their_order_after_a_refused_one(desk):
    producer = Producer(desk)
    first, second = producer.produce(0), producer.produce(0)
    assert codes(desk.ask(first, 11)) == {0: ABORTABLE}
    desk.ask(producer.add(0), 3)
    assert codes(desk.ask(second, 11)) == {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert codes(desk.ask(first, 11)) == {0: 0}
    assert codes(desk.ask(second, 11)) == {0: 0}


def test_all_partitions_are_added_or_none(desk):
    producer = Producer(desk)
    answer = desk.ask(producer.add(0, 9), 3)
    assert added(answer) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    internal = desk.ask(producer.add(0, topic="__consumer_offsets"), 3)
    assert added(internal) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert state_of(desk).transaction_state == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_add_and_verify_for_many_transactions_at_once(desk, version):
    first, second = Producer(desk, "x"), Producer(desk, "y")

    def ask(*wanted):
        transactions = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                it.name, it.id, it.epoch, only, [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("t", [0])]
            )
            for it, only in wanted
        ]
        answer = desk.ask(AddPartitionsToTxnRequest(transactions), version)
        return [
            it.topic_results[0].results_by_partition[0].partition_error_code for it in answer.results_by_transaction
        ]

    assert ask((first, True), (second, False)) == [ABORTABLE, 0]
    assert ask((first, False), (second, True)) == [0, 0]
    assert ask() == []


@pytest.mark.parametrize("place", [0, 1])
def test_an_answer_about_several_transactions_waits_for_the_decisions_about_all_of_them(desk, place):
    producers = [Producer(desk, name) for name in "xy"]
    decided = desk.decide(producers[place].add(0), 3)
    verifying = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            it.name, it.id, it.epoch, True, [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic("t", [0])]
        )
        for it in producers
    ]
    waiting = desk.decide(AddPartitionsToTxnRequest(verifying), 4)
    assert isinstance(waiting, Pending)
    assert not waiting.entries
    desk.submit(decided.entries, decided.on_durable)
    assert isinstance(desk.decide(AddPartitionsToTxnRequest(verifying), 4), Send)


def test_transactions_are_listed_by_state_producer_duration_and_name(desk):
    first, second = Producer(desk, "x-1"), Producer(desk, "x-2")
    Producer(desk, "y")
    desk.ask(first.produce(0), 12)
    desk.now_ms += 100

    def listed(*fields, version=2):
        answer = desk.ask(ListTransactionsRequest(*fields), version)
        return [it.transactional_id for it in answer.transaction_states], answer.unknown_state_filters

    assert listed([], [], -1, None) == (["x-1", "x-2", "y"], [])
    assert listed(["Ongoing", "Nonsense"], [], -1, None) == (["x-1"], ["Nonsense"])
    assert listed(["Nonsense"], [], -1, None) == ([], ["Nonsense"])
    assert listed([], [second.id], -1, None) == (["x-2"], [])
    assert listed(["Ongoing"], [], 99, None) == (["x-1"], [])
    assert listed(["Ongoing"], [], 100, None) == ([], [])
    assert listed([], [], -1, "x-.*") == (["x-1", "x-2"], [])
    refused = desk.ask(ListTransactionsRequest([], [], -1, "x-["), 2)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_is_described(desk):
    producer = Producer(desk)
    desk.ask(producer.produce(1, 0), 12)
    found = state_of(desk)
    assert (found.transaction_state, found.transaction_timeout_ms, found.transaction_start_time_ms) == (
        "Ongoing",
        60_000,
        desk.now_ms,
    )
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", [0, 1])]
    assert state_of(desk, "nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert state_of(desk, "").error_code == ErrorCode.INVALID_REQUEST


def test_a_broker_without_transactions_starts_and_produces_without_the_coordinator():
    """Unused modules are not loaded, so that startup takes at most 0.3 seconds."""
    code = (
        "import sys; import tests.apis.transactions.transaction_desk as it\n"
        "loaded = [name for name in sys.modules if name.startswith('pipeline_broker.state.transactions')]\n"
        "for name in loaded: del sys.modules[name]\n"
        "from tests.apis.desk import Desk\n"
        "desk = Desk(*it.SETTINGS); desk.create_topic('t')\n"
        "batch = it.build_batch([it.NewRecord(b'v', None, 0)])\n"
        "data = [it.ProduceRequest.PartitionProduceData(0, batch)]\n"
        "request = it.ProduceRequest(None, -1, 0, [it.ProduceRequest.TopicProduceData('t', partition_data=data)])\n"
        "assert it.codes(desk.ask(request, 12)) == {0: 0}\n"
        "assert not [name for name in sys.modules if name.startswith('pipeline_broker.state.transactions')]\n"
        "assert 'pipeline_broker.apis.transactions.transactional_produce' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_producer_that_a_newer_one_overtook_is_left_alone_by_the_coordinator(desk, caplog):
    """An administrator ended the transaction in one partition, and a newer producer uses the id; the other partitions
    end.
    """
    producer = Producer(desk)
    desk.ask(producer.produce(0, 1), 12)
    log = desk.broker.logs.find("t", 0)
    assert isinstance(log, PartitionLog)
    desk.commit(
        [log.append_marker(producer.id, 9, committed=False, coordinator_epoch=0, now_ms=desk.now_ms, version=0).entry]
    )
    assert producer.ended() == 0
    assert read(desk, 1) == (2, [])
    assert "cannot end a transaction" in caplog.text
