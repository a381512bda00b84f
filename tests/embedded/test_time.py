"""Effects of `advance` on an embedded broker."""

import time

import pytest

from pipeline_broker import EmbeddedBroker

pytestmark = pytest.mark.clients

PATIENCE = 30.0


@pytest.fixture
def broker():
    with EmbeddedBroker() as started:
        yield started


def test_advance_aborts_an_open_transaction_after_its_timeout(broker):
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "left-open",
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce("t", b"undecided")
    producer.flush(PATIENCE)
    assert [record.value for record in broker.records("t", committed=False)] == [b"undecided"]

    broker.advance(59)
    broker.produce("t", "behind")
    assert broker.records("t") == [], "records after an open transaction wait for its end"
    broker.advance(30)

    assert [record.value for record in broker.wait_records("t")] == [b"behind"]


def test_advance_by_more_than_a_week_aborts_and_expires_a_transaction(broker):
    """Timers run one by one: the id expires a week after the abort."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "left-open"})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce("t", b"undecided")
    producer.flush(PATIENCE)
    broker.advance(8 * 86_400)
    assert broker.on_loop(lambda it: [known.transactional_id for known in it.broker.transactions.all()]) == []


def test_advance_expires_offsets_of_an_empty_group(broker):
    from confluent_kafka import Consumer

    broker.produce("t", "value")
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe(["t"])
    consumer.commit(consumer.poll(PATIENCE), asynchronous=False)
    consumer.close()
    broker.advance(6 * 86_400)
    assert broker.offsets("g") == {("t", 0): 1}
    broker.advance(2 * 86_400)
    assert (broker.offsets("g"), broker.groups()) == ({}, [])


def test_advance_compacts_a_topic(broker):
    configs = {"cleanup.policy": "compact", "max.compaction.lag.ms": 60_000, "min.cleanable.dirty.ratio": 0.01}
    broker.create_topic("t", configs={**configs, "segment.ms": 1_000})
    for number in range(5):
        broker.produce("t", f"value-{number}", key="k")
    assert len(broker.records("t")) == 5
    broker.advance(3_600)
    broker.produce("t", "last", key="other")
    broker.advance(3_600)
    assert [record.value for record in broker.records("t")] == [b"value-4", b"last"]


def wait_deleted(broker, seconds):
    """Return whether retention deletes the record of 2020."""
    broker.produce("t", "of 2020", timestamp=1_600_000_000_000)
    deadline = time.monotonic() + seconds
    while broker.records("t") and time.monotonic() < deadline:
        time.sleep(0.02)
    return broker.records("t") == []


def test_records_with_old_timestamps_stay_until_time_is_advanced():
    """Unless retention starts earlier, as in a broker process after 30 seconds."""
    impatient = {"log.initial.task.delay.ms": 100, "log.retention.check.interval.ms": 100}
    with EmbeddedBroker(settings=impatient) as broker:
        assert wait_deleted(broker, PATIENCE)
    with EmbeddedBroker(settings={"log.retention.check.interval.ms": 100}) as broker:
        assert not wait_deleted(broker, 0.5)
        broker.advance(1)
        assert broker.records("t") == []


def test_compaction_leaves_the_active_segment():
    with EmbeddedBroker() as broker:
        broker.create_topic("t", configs={"cleanup.policy": "compact"})
        for value in "12":
            broker.produce("t", value, key="k")
        broker.advance("8d")
        assert [record.value for record in broker.records("t")] == [b"1", b"2"]
        broker.produce("t", "3", key="k")
        broker.advance(1)
        assert [record.value for record in broker.records("t")] == [b"2", b"3"]
