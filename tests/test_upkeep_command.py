"""`pipeline-broker compact` and `retain`, on a running broker and on the directory of one that does not run."""

import confluent_kafka as ck
import confluent_kafka.admin as cka
import pytest
from click.testing import CliRunner

from pipeline_broker.cli import main

KEYS = 3
RECORDS = 60
WAIT_SECONDS = 20


def run(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def create(broker, name, **config):
    admin = cka.AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([cka.NewTopic(name, 1, 1, config=config)])[name].result(WAIT_SECONDS)


def produce(broker, topic, timestamp=0):
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(RECORDS):
        producer.produce(topic, f"{number}".ljust(30_000, "."), f"key {number % KEYS}", timestamp=timestamp)
    assert producer.flush(WAIT_SECONDS) == 0


def consumed(broker, topic):
    """Offsets and keys that a consumer finds, and where the log starts and ends."""
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.partition.eof": True})
    low, high = consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=WAIT_SECONDS)
    consumer.assign([ck.TopicPartition(topic, 0, low)])
    found = []
    while (message := consumer.poll(WAIT_SECONDS)) is not None and message.error() is None:
        found.append((message.offset(), message.key().decode()))
    consumer.close()
    return low, high, found


def test_a_running_broker_compacts_on_command(broker_process):
    broker = broker_process()
    create(broker, "users", cleanup_policy="compact", segment_bytes="1048576")
    produce(broker, "users")
    assert run("compact", "--data", broker.data, "--topic", "users") == (0, "compacted\n")

    low, high, found = consumed(broker, "users")
    assert (low, high) == (0, RECORDS)
    assert len(found) < RECORDS
    assert {key for _, key in found} == {f"key {number}" for number in range(KEYS)}
    assert [offset for offset, _ in found][-KEYS:] == list(range(RECORDS - KEYS, RECORDS))


def test_a_running_broker_lets_old_records_go_on_command(broker_process):
    broker = broker_process()
    create(broker, "old", retention_ms="1000")
    produce(broker, "old", timestamp=1_600_000_000_000)
    assert run("retain", "--data", broker.data) == (0, "deleted\n")
    assert run("retain", "--data", broker.data) == (0, "nothing to do\n")
    assert consumed(broker, "old") == (RECORDS, RECORDS, [])


@pytest.mark.parametrize("command", ["compact", "retain"])
def test_where_no_broker_runs_the_command_does_it(broker_process, command):
    broker = broker_process()
    create(broker, "t", cleanup_policy="compact,delete", segment_bytes="1048576", retention_ms="1000")
    produce(broker, "t", timestamp=1_600_000_000_000)
    broker.stop()
    code, output = run(command, "--data", broker.data)
    assert (code, output) == (0, "compacted\n" if command == "compact" else "deleted\n")

    again = broker_process(data=broker.data)
    low, high, found = consumed(again, "t")
    assert high == RECORDS
    assert len(found) < RECORDS
    assert low == (RECORDS if command == "retain" else 0)


def test_mistakes_are_one_line(broker_process, tmp_path):
    assert run("compact", "--data", tmp_path) == (2, f"Error: {tmp_path} is no data directory: it has no journal\n")
    broker = broker_process()
    code, output = run("compact", "--data", broker.data, "--topic", "nope")
    assert (code, output) == (1, "Error: there is no topic 'nope'\n")
