"""Kafka's console producer and consumer; needs Java and the jars that the client suites fetch."""

import json

import pytest

from tests.clients.conftest import SETTINGS
from tests.crashes.lengths import drawn
from tests.kafka_tools import kafka_tool

pytestmark = pytest.mark.clients


@pytest.fixture
def java_tool(tmp_path):
    """Runs a program of Kafka's tools: its class, its arguments, its input; gives the lines it printed."""
    run = kafka_tool(tmp_path)
    return lambda *arguments, **options: run(*arguments, **options).stdout.splitlines()


@pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
def test_console_tools_write_and_read_in_a_group(broker_process, mode, java_tool, new_name):
    """The group reads on, in a second process, where the first one stopped: through fetch sessions and commits."""
    topic, group = new_name(), new_name()
    broker = broker_process(mode=mode, settings=SETTINGS)
    server = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    lines = [f"key-{number}\tvalue-{number}" for number in range(100)]
    java_tool(
        "ConsoleProducer",
        *server,
        *("--compression-codec", "lz4", "--batch-size", "5", "--reader-property", "parse.key=true"),
        text="\n".join(lines),
    )

    def read(count):
        reader = ("--group", group, "--from-beginning", "--formatter-property", "print.key=true")
        limits = ("--max-messages", str(count), "--timeout-ms", "30000")
        return java_tool("consumer.ConsoleConsumer", *server, *reader, *limits)

    assert read(60) + read(40) == lines


@pytest.mark.parametrize("mode", drawn("classic", "pipelined"))
def test_kafka_delete_records_and_kafka_log_dirs_change_and_show_what_is_there(
    broker_process, mode, java_tool, tmp_path, new_name
):
    """The earliest offset is the new start; the directory is told with the sizes of the partitions."""
    topic = new_name()
    broker = broker_process(mode=mode, settings=SETTINGS)
    server = ("--bootstrap-server", broker.bootstrap)
    java_tool("ConsoleProducer", *server, "--topic", topic, text="one\ntwo\nthree")
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}))
    deleted = java_tool("DeleteRecordsCommand", *server, "--offset-json-file", str(wanted))
    assert f"partition: {topic}-0\tlow_watermark: 2" in deleted
    earliest = java_tool("GetOffsetShell", *server, "--topic", topic, "--time", "earliest")
    assert earliest == [f"{topic}:0:2"]
    shown = java_tool("LogDirsCommand", *server, "--describe", "--topic-list", topic)
    (described,) = json.loads(shown[-1])["brokers"][0]["logDirs"]
    assert (described["logDir"], described["error"]) == (str(broker.data.absolute()), None)
    (partition,) = described["partitions"]
    assert (partition["partition"], partition["offsetLag"], partition["isFuture"]) == (f"{topic}-0", 0, False)
    assert partition["size"] > 0


@pytest.mark.parametrize("mode", drawn("classic", "pipelined"))
def test_kafka_configs_sets_shows_and_removes_quotas(broker_process, mode, java_tool):
    """Of a user, of each client id of a user, and of an address, with the defaults of all."""
    broker = broker_process(mode=mode, settings=SETTINGS)

    def configs(*arguments):
        return java_tool("ConfigCommand", "--bootstrap-server", broker.bootstrap, *arguments)

    each_app = ("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients", "--entity-default")
    anywhere = ("--entity-type", "ips", "--entity-default")
    configs("--alter", *each_app, "--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    configs("--alter", *anywhere, "--add-config", "connection_creation_rate=1000")
    (shown,) = configs("--describe", *each_app)
    assert "user-principal 'ann', the default client-id" in shown
    assert "producer_byte_rate=1024.0" in shown
    assert "request_percentage=12.5" in shown
    assert any("connection_creation_rate=1000.0" in line for line in configs("--describe", *anywhere))
    configs("--alter", *each_app, "--delete-config", "producer_byte_rate,request_percentage")
    assert configs("--describe", *each_app) == []
