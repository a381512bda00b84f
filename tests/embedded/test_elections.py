"""Leaders of an embedded cluster change: nothing is lost, doubled or out of order."""

import itertools
import threading
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from pipeline_broker import EmbeddedBroker, EmbeddedBrokerError, EmbeddedCluster, RefusedError
from tests.clients.kafka_python_client import kafka
from tests.crashes.lengths import examples
from tests.embedded.clusters import create_replicated, led_by, metadata
from tests.embedded.election_machine import PARTITIONS as PARTITIONS_OF_MACHINE
from tests.embedded.election_machine import ElectionMachine

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # kafka-python leaves some to the collector
]

SECONDS_MAX = 30.0
PARTITIONS = 6
EXAMPLES, STEPS = examples(90), 30
ABOUT = {
    "an election",
    "an election with an open transaction",
    "a stop without a controller",
    "a move",
    "a return to a former leader",
    "a duplicate after an election",
    "an end of a transaction after an election",
}


@pytest.fixture
def machine():
    """A machine on a cluster of its own, and the kinds of cases that its examples had."""
    seen = Counter()
    with EmbeddedCluster() as used:

        class Machine(ElectionMachine):
            cluster = used

            def about(self, name):
                seen[name] += 1

        yield Machine, seen


def test_whatever_stops_and_moves_clients_see_the_same_records(machine):
    kind, seen = machine
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert {"an election", "a move", "a duplicate after an election"} <= seen.keys()


def test_every_kind_of_case_leaves_the_records_as_they_are(machine):
    kind, seen = machine
    one = kind()
    one.create()
    for step, *arguments in (
        (one.begin, set(PARTITIONS_OF_MACHINE)),
        (one.stop_leader, 0),
        (one.end, True),
        (one.start, 0),
        (one.move, 0, 1),
        (one.move_back, 1),
        (one.begin, set(PARTITIONS_OF_MACHINE)),
        (one.stop, 1),
        (one.stop_leader, 0),
        (one.start, 0),
        (one.start, 0),
        (one.end, False),
        (one.write, 0, 2),
        (one.delete_records, 0, 0.5),
        (one.stop, 3),
        (one.commit, 0, 5),
    ):
        step(*arguments)
        one.check()
    one.teardown()
    assert seen.keys() == ABOUT


@pytest.fixture
def replicated(cluster):
    create_replicated(cluster, "replicated", PARTITIONS, 3)
    return "replicated"


def restart_each(cluster, end):
    """Stop or kill each broker, the controller too, and start it again, with progress of the clients in between."""
    for broker in cluster.brokers:
        progress = len(cluster.records("replicated"))
        end(broker)
        # Every partition has a leader, so clients need no start.
        assert {cluster.leader_of("replicated", number) for number in range(PARTITIONS)} <= set(cluster.brokers) - {
            broker
        }
        cluster.wait_records("replicated", progress + 30)
        cluster.start(broker)


def assert_all_once_and_in_order(cluster, sent, *, committed=True):
    """The numbers in each partition rise, and are exactly those that were acknowledged."""
    found = cluster.records("replicated", committed=committed)
    for number in range(PARTITIONS):
        values = [int(it.value) for it in found if it.partition == number]
        assert values == sorted(set(values))
    assert sorted(int(it.value) for it in found) == sorted(sent)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_idempotent_producer_of_confluent_kafka_needs_no_start(cluster, replicated, how):
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "log_level": 0,
        "linger.ms": 0,
    }
    producer, acknowledged, failed, is_over = Producer(config), [], [], threading.Event()

    def delivered(error, message):
        (failed if error else acknowledged).append(error or int(message.value()))

    def send():
        for number in itertools.count():
            producer.produce(replicated, str(number), partition=number % PARTITIONS, on_delivery=delivered)
            producer.poll(0.001)
            if is_over.is_set():
                break

    thread = threading.Thread(target=send)
    thread.start()
    try:
        restart_each(cluster, getattr(cluster, how))
    finally:
        is_over.set()
        thread.join()
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == []
    assert_all_once_and_in_order(cluster, acknowledged)


def test_a_producer_of_kafka_python_continues(cluster, replicated):
    """Its consumer does not always: see docs/reference/clients.md."""
    servers = cluster.bootstrap_servers.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", retries=1_000, retry_backoff_ms=10)
    futures, is_over = [], threading.Event()

    def send():
        for number in itertools.count():
            futures.append(producer.send(replicated, str(number).encode(), partition=number % PARTITIONS))
            if is_over.wait(0.005):
                break

    thread = threading.Thread(target=send)
    thread.start()
    try:
        restart_each(cluster, cluster.stop)
    finally:
        is_over.set()
        thread.join()
        for future in futures:
            future.get(SECONDS_MAX)
        producer.close()
    # Without idempotence, a batch may be written again after its answer was lost.
    assert sorted({int(it.value) for it in cluster.records(replicated)}) == list(range(len(futures)))


def test_transactions_commit_and_abort_across_elections(cluster, replicated):
    config = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "x", "log_level": 0, "linger.ms": 0}
    producer = Producer(config)
    producer.init_transactions(SECONDS_MAX)
    numbers, committed = itertools.count(), []
    for broker, is_commit in itertools.product(cluster.brokers, (True, False)):
        producer.begin_transaction()
        sent = [next(numbers) for _ in range(PARTITIONS * 2)]
        for number in sent[:PARTITIONS]:
            producer.produce(replicated, str(number), partition=number % PARTITIONS)
        assert producer.flush(SECONDS_MAX) == 0
        cluster.stop(broker)
        for number in sent[PARTITIONS:]:
            producer.produce(replicated, str(number), partition=number % PARTITIONS)
        assert producer.flush(SECONDS_MAX) == 0
        (producer.commit_transaction if is_commit else producer.abort_transaction)(SECONDS_MAX)
        committed += sent if is_commit else []
        cluster.start(broker)
    cluster.wait_records(replicated, len(committed))
    assert_all_once_and_in_order(cluster, committed)
    assert len(cluster.records(replicated, committed=False)) == next(numbers)


def test_a_group_keeps_its_offsets_and_members_while_its_coordinator_moves(cluster, replicated):
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "enable.auto.commit": False, "log_level": 0})
    consumer.subscribe([replicated])
    received = []
    while not consumer.assignment():
        consumer.poll(0.02)
    for broker in cluster.brokers:
        for number in range(PARTITIONS):
            cluster.produce(replicated, f"{broker.node_id}-{number}", partition=number)
        cluster.stop(broker)
        while len(received) < PARTITIONS * broker.node_id:
            received += [it.value().decode() for it in consumer.consume(PARTITIONS, 0.1) if not it.error()]
        consumer.commit(asynchronous=False)
        assert set(cluster.wait_committed("g").values()) == {broker.node_id}
        cluster.start(broker)
    assert len(received) == len(set(received)) == PARTITIONS * 3
    consumer.close()


def test_partitions_with_one_replica_wait_for_their_broker(cluster, topic, replicated):
    broker = cluster.leader_of(topic, 0)
    before = [metadata(broker, replicated).topics[0].partitions[number].leader_epoch for number in range(PARTITIONS)]
    led = led_by(broker, replicated)
    cluster.stop(broker)
    with pytest.raises(RefusedError, match="LEADER_NOT_AVAILABLE"):
        cluster.leader_of(topic, 0)
    for other in set(cluster.brokers) - {broker}:
        for number, it in enumerate(metadata(other, replicated).topics[0].partitions if other.is_running else ()):
            assert sorted(it.replica_nodes) == [1, 2, 3]
            assert set(it.isr_nodes) == {1, 2, 3} - {broker.node_id}
            assert it.offline_replicas == [broker.node_id]
            assert it.leader_epoch == before[number] + (number in led)
    cluster.start(broker)
    assert cluster.leader_of(topic, 0) is broker


def test_replicas_are_those_of_the_request_or_of_the_settings():
    settings = {"default.replication.factor": 2, "offsets.topic.replication.factor": 1}
    with EmbeddedCluster(settings=settings) as cluster:
        for name, factor in (("one", 1), ("two", None), ("three", 3)):
            cluster.create_topic(name, partitions=2, replication_factor=factor)
        shown = metadata(cluster.brokers[1], "one", "two", "three").topics
        assert [[len(set(it.replica_nodes)) for it in each.partitions] for each in shown] == [[1, 1], [2, 2], [3, 3]]
        with pytest.raises(RefusedError, match=r"INVALID_REPLICATION_FACTOR.*only 3 broker"):
            cluster.create_topic("four", replication_factor=4)
    with EmbeddedBroker() as broker:
        broker.create_topic("one", replication_factor=1)
        with pytest.raises(RefusedError, match=r"INVALID_REPLICATION_FACTOR.*only 1 broker"):
            broker.create_topic("two", replication_factor=2)
    with pytest.raises(EmbeddedBrokerError, match=r"default\.replication\.factor needs a number of replicas from 1"):
        EmbeddedCluster(settings={"default.replication.factor": 0})


def test_a_leader_moves_only_to_a_living_replica(cluster, topic, replicated):
    first, second, third = cluster.brokers
    leader = cluster.leader_of(topic, 0)
    other = next(broker for broker in cluster.brokers if broker is not leader)
    with pytest.raises(RefusedError, match=f"ELIGIBLE_LEADERS_NOT_AVAILABLE: broker {other.node_id} has no replica"):
        cluster.move_leader(topic, 0, other)
    cluster.stop(third)
    with pytest.raises(RefusedError, match="ELIGIBLE_LEADERS_NOT_AVAILABLE: broker 3 is stopped"):
        cluster.move_leader(replicated, 0, third)
    cluster.move_leader(replicated, 0, first)
    cluster.move_leader(replicated, 0, second)
    assert cluster.leader_of(replicated, 0) is second
    cluster.stop(first)
    with pytest.raises(EmbeddedBrokerError, match="broker 1, the controller, is stopped"):
        cluster.move_leader(replicated, 0, third)
    cluster.start(first)


def test_the_cluster_starts_again_from_a_snapshot_of_moved_leaders(cluster, replicated):
    for number in range(PARTITIONS):
        cluster.produce(replicated, str(number), partition=number)
        cluster.move_leader(replicated, number, cluster.brokers[(number + 1) % 3])
    leaders = [cluster.leader_of(replicated, number) for number in range(PARTITIONS)]
    kept = cluster.snapshot()
    cluster.produce(replicated, "later", partition=0)
    cluster.restore(kept)
    assert [cluster.leader_of(replicated, number) for number in range(PARTITIONS)] == leaders
    cluster.assert_records(replicated, list(map(str, range(PARTITIONS))))
    cluster.reset()
    assert cluster.topics() == {}
