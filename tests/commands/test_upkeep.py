"""`pipeline-broker compact` and `retain`, with and without a running broker."""

import time

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
    """Return the offsets and keys that a consumer reads, the log start and the end."""
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


def test_a_running_broker_deletes_old_records_on_command(broker_process):
    broker = broker_process()
    create(broker, "old", retention_ms="1000")
    produce(broker, "old", timestamp=1_600_000_000_000)
    assert run("retain", "--data", broker.data) == (0, "deleted\n")
    assert run("retain", "--data", broker.data) == (0, "nothing to do\n")
    assert consumed(broker, "old") == (RECORDS, RECORDS, [])


OLD_MS = 30 * 24 * 3_600_000
"""Age of records that the default retention deletes. librdkafka uses the machine's clock."""
SETTINGS = {"compact": "log.cleaner.min.compaction.lag.ms", "retain": "log.retention.ms"}
KEPT = {"compact": str(100 * OLD_MS), "retain": "-1"}
GONE = {"compact": "0", "retain": "1000"}
DONE = {"compact": "compacted\n", "retain": "deleted\n"}
ADVICE = "which are unknown. Give --config or --set as for serve."


def old_records(broker_process, topic="t", settings=(), **config):
    """The directory of a stopped broker, with records that are 30 days old."""
    broker = broker_process(settings=settings)
    create(broker, topic, **config)
    produce(broker, topic, timestamp=int(time.time() * 1000) - OLD_MS)
    return broker


def kept_in(broker_process, data, topic="t", settings=()):
    """Return the number of records that a consumer reads after the next start."""
    broker = broker_process(data=data, settings=settings)
    found = len(consumed(broker, topic)[2])
    broker.stop()
    return found


@pytest.mark.parametrize("command", ["compact", "retain"])
def test_without_a_running_broker_the_topics_own_settings_decide(broker_process, command):
    broker = old_records(
        broker_process,
        cleanup_policy="compact,delete",
        segment_bytes="1048576",
        retention_ms="1000",
        min_compaction_lag_ms="0",
        delete_retention_ms="1000",
    )
    broker.stop()
    assert run(command, "--data", broker.data, "--topic", "t") == (0, DONE[command])
    low, high, found = consumed(broker_process(data=broker.data), "t")
    assert high == RECORDS
    assert len(found) < RECORDS
    assert low == (RECORDS if command == "retain" else 0)


@pytest.mark.parametrize("command", ["compact", "retain"])
@pytest.mark.parametrize("lets_go", [False, True])
def test_without_a_running_broker_the_command_acts_like_a_broker_with_its_settings(
    broker_process, tmp_path, command, lets_go
):
    setting = f"{SETTINGS[command]}={(GONE if lets_go else KEPT)[command]}"
    policy = {"compact": "compact", "retain": "delete"}[command]
    properties = tmp_path / "server.properties"
    data = tmp_path / "elsewhere"
    properties.write_text(f"{setting}\nlog.segment.bytes=1048576\nlog.cleanup.policy={policy}\nlog.dirs={data}\n")
    broker = broker_process(data=data, arguments=("--config", str(properties)))
    create(broker, "t")
    produce(broker, "t", timestamp=int(time.time() * 1000) - OLD_MS)
    broker.stop()

    assert run(command, "--config", properties, "--topic", "t") == (0, DONE[command] if lets_go else "nothing to do\n")
    settings = properties.read_text().split()
    assert (kept_in(broker_process, data, settings=settings) < RECORDS) is lets_go


@pytest.mark.parametrize("command", ["compact", "retain"])
def test_without_the_brokers_settings_no_record_is_deleted_that_it_would_keep(broker_process, command):
    settings = (
        f"{SETTINGS[command]}={KEPT[command]}",
        "log.segment.bytes=1048576",
        *(("log.cleanup.policy=compact",) if command == "compact" else ()),
    )
    broker = old_records(broker_process, settings=settings)
    broker.stop()
    code, output = run(command, "--data", broker.data)
    inherited = {
        "compact": "cleanup.policy, min.compaction.lag.ms and delete.retention.ms",
        "retain": "cleanup.policy and retention.ms",
    }[command]
    done = {"compact": "compacted", "retain": "deleted"}[command]
    line = f"Error: nothing of topic 't' was {done}: {inherited} come from the broker's settings, {ADVICE}\n"
    assert (code, output) == (2, line)
    assert kept_in(broker_process, broker.data, settings=settings) == RECORDS


def test_a_skipped_topic_does_not_stop_the_others(broker_process):
    broker = old_records(broker_process, "kept", cleanup_policy="delete")
    create(broker, "gone", cleanup_policy="delete", retention_ms="1000")
    produce(broker, "gone", timestamp=int(time.time() * 1000) - OLD_MS)
    broker.stop()
    line = f"Error: nothing of topic 'kept' was deleted: retention.ms comes from the broker's settings, {ADVICE}\n"
    assert run("retain", "--data", broker.data) == (2, f"deleted\n{line}")
    again = broker_process(data=broker.data, settings=("log.retention.ms=-1",))
    assert consumed(again, "kept")[:2] == (0, RECORDS)
    assert consumed(again, "gone")[:2] == (RECORDS, RECORDS)


def alter_broker(broker, whom, setting):
    """Store a broker setting in the data directory, for one broker or with --default for all."""
    code, output = run("config", "set", "-b", broker.bootstrap, "broker", whom, setting)
    assert code == 0, output


def test_settings_stored_for_all_brokers_decide_unless_stored_for_one_broker(broker_process):
    broker = old_records(broker_process, settings=("log.retention.ms=-1",), cleanup_policy="delete")
    alter_broker(broker, "--default", "log.retention.ms=1000")
    broker.stop()
    assert run("retain", "--data", broker.data) == (0, "deleted\n")

    broker = broker_process(data=broker.data, settings=("log.retention.ms=-1",))
    produce(broker, "t", timestamp=int(time.time() * 1000) - OLD_MS)
    alter_broker(broker, "1", "log.retention.ms=-1")
    broker.stop()
    code, output = run("retain", "--data", broker.data)
    assert (code, "retention.ms comes from the broker's settings" in output) == (2, True)
    assert run("retain", "--data", broker.data, "--set", "node.id=1") == (0, "nothing to do\n")
    assert run("retain", "--data", broker.data, "--set", "node.id=2") == (0, "deleted\n")


def test_mistakes_are_one_line(broker_process, tmp_path):
    assert run("compact", "--data", tmp_path) == (
        2,
        f"Error: {tmp_path} is not a data directory: it has no journal. Name the directory given to `serve --data`\n",
    )
    broker = broker_process()
    code, output = run("compact", "--data", broker.data, "--topic", "nope")
    assert (code, output) == (1, "Error: unknown topic 'nope'. Name an existing topic with --topic\n")
