"""`pipeline-broker transactions` against a broker with transactions of confluent-kafka, some of them hanging."""

import time

import confluent_kafka
import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.produce import ProduceResponse
from tests.apis.wire_client import WireClient
from tests.bad_input.raw_client import produce_request
from tests.commands.cluster.conftest import CommandLine

PRODUCE_VERSION = 9
HANGING_PRODUCER = 4711
LONG_AGO_MS = 1000


@pytest.fixture(scope="module")
def trusting():
    """A broker that accepts writes of transactions that no coordinator knows, like brokers before KIP-890."""
    settings = {"num.partitions": 2, "transaction.partition.verification.enable": "false"}
    with EmbeddedBroker(settings=settings) as embedded:
        yield embedded


@pytest.fixture
def call(trusting):
    return CommandLine(trusting.bootstrap_servers)


@pytest.fixture
def transaction(trusting, name):
    """An open transaction in partition 1 of a topic with its name."""
    trusting.create_topic(name, partitions=2)
    producer = confluent_kafka.Producer({"bootstrap.servers": trusting.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(name, b"open", partition=1)
    producer.flush(20)
    yield producer
    producer.abort_transaction(20)


def hang(broker, topic, at_ms=LONG_AGO_MS):
    """Begin a transaction that no coordinator will end."""
    broker.create_topic(topic, partitions=2)
    batch = build_batch(
        [NewRecord(b"hanging", timestamp=at_ms)],
        producer_id=HANGING_PRODUCER,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    request = produce_request((0, batch), topic=topic)
    request.transactional_id = "gone"
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with WireClient(host, int(port)) as client:
        answer = client.ask(request, ProduceResponse, PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_an_open_transaction_is_listed_and_described(call, transaction, name):
    assert transaction is not None
    (listed,) = call("transactions", "list", "--state", "Ongoing", "--json").json
    assert (listed["transactional_id"], listed["state"], listed["coordinator"]) == (name, "Ongoing", 1)
    (described,) = call("transactions", "describe", name, "--json").json
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{name}-1"])
    assert described["producer_id"] == listed["producer_id"]
    assert abs(described["started_ms"] / 1000 - time.time()) < 60
    (producer,) = call("transactions", "producers", name, "--json").json
    assert (producer["partition"], producer["producer_id"]) == (1, listed["producer_id"])
    assert producer["started_at"] == 0
    assert call("transactions", "producers", name, "-p", 0, "--json").json == []


def test_a_transaction_that_its_coordinator_knows_does_not_hang(call, transaction):
    assert transaction is not None
    assert call("transactions", "find-hanging", "--max-transaction-timeout", 0, "--json").json == []


def test_a_hanging_transaction_is_found_and_aborted(call, trusting, name):
    hang(trusting, name)
    trusting.produce(name, "behind", partition=0)
    (found,) = call("transactions", "find-hanging", "--topic", name, "--json").json
    assert (found["partition"], found["producer_id"], found["start_offset"]) == (0, HANGING_PRODUCER, 0)
    assert found["transactional_id"] is None
    assert call("consume", name, "--format", "%s").out == ""
    ended = call("transactions", "abort", name, 0, "--start-offset", 0)
    assert ended.out == f"aborted the transaction of producer {HANGING_PRODUCER} in {name}-0\n"
    assert call("transactions", "find-hanging", "--json").json == []
    assert call("consume", name, "--format", "%s").out == "behind"


def test_a_transaction_does_not_hang_before_the_timeout(call, trusting, name):
    hang(trusting, name, time.time_ns() // 1_000_000)
    assert call("transactions", "find-hanging", "--topic", name, "--json").json == []
    assert len(call("transactions", "find-hanging", "--max-transaction-timeout", 0, "--json").json) == 1
    call("transactions", "abort", name, 0, "--start-offset", 0)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["list", "--state", "Flying"], 1, "unknown state Flying"),
        (["describe", "nobody"], 1, "unknown transaction 'nobody'"),
        (["producers", "nowhere"], 1, "unknown topic 'nowhere'"),
        (["find-hanging", "--topic", "nowhere"], 1, "unknown topic 'nowhere'"),
        (["abort", "NAME", "0", "--start-offset", "5"], 1, "no open transaction of NAME-0 began at offset 5"),
        (["abort", "NAME", "0"], 2, "Missing option '--start-offset'"),
    ],
)
def test_an_error_is_one_line(call, name, arguments, code, message):
    call("topics", "create", name)
    called = call("transactions", *(it.replace("NAME", name) for it in arguments), code=code)
    assert message.replace("NAME", name) in called.err
    assert called.err.count("\n") == 1
