"""Kafka's share consumers with shared partitions and a killed broker, and Kafka's tools for their groups."""

import contextlib
import json
import subprocess
import threading

import pytest

from tests.clients.conftest import SETTINGS
from tests.crashes.lengths import drawn
from tests.kafka_tools import SECONDS_MAX, kafka_tool, tool_command

pytestmark = pytest.mark.clients

COMMAND = "consumer.group.ShareGroupCommand"
RECORDS = 60


@pytest.fixture
def java_tool(tmp_path):
    """Runs a program of Kafka's tools: its class, its arguments, its input; gives the lines it printed."""
    run = kafka_tool(tmp_path)
    return lambda *arguments, **options: run(*arguments, **options).stdout.splitlines()


@pytest.fixture
def share_readers(tmp_path):
    """Runs readers of a share group until they have printed all records; gives what they printed until their end."""
    command_of = tool_command(tmp_path)

    def read_lines(process, found, is_complete):
        for line in process.stdout:
            found.append(line.rstrip("\n"))
            if len(found) >= RECORDS:
                is_complete.set()

    def read(count, *arguments):
        found, is_complete = [], threading.Event()
        command = command_of("consumer.ConsoleShareConsumer", *arguments)
        with contextlib.ExitStack() as stack:
            processes = [
                stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) for _ in range(count)
            ]
            readers = [threading.Thread(target=read_lines, args=(it, found, is_complete)) for it in processes]
            for reader in readers:
                reader.start()
            everything = is_complete.wait(SECONDS_MAX)
            for process in processes:
                process.terminate()
            for reader in readers:
                reader.join()
        assert everything, found
        return found

    return read


@pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
def test_a_share_group_reads_on_where_it_was(broker_process, mode, java_tool, new_name):
    """Reset to the first record; one process reads a part, the next one the rest, after a restart of the broker."""
    topic, group = new_name(), new_name()
    broker = broker_process(mode=mode, settings=SETTINGS)
    lines = [f"value-{number}" for number in range(RECORDS)]
    java_tool("ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic, text="\n".join(lines))
    of_group = ("--group", group, "--topic", topic)

    def command(*arguments):
        return java_tool(COMMAND, "--bootstrap-server", broker.bootstrap, *arguments)

    def read(count):
        limits = ("--max-messages", str(count), "--timeout-ms", "20000", "--consumer-property", "max.poll.records=1")
        return java_tool(
            "consumer.ConsoleShareConsumer",
            "--bootstrap-server",
            broker.bootstrap,
            *of_group[:2],
            "--topic",
            topic,
            *limits,
        )

    command("--reset-offsets", *of_group, "--to-earliest", "--execute")
    first = [line for line in read(20) if line in lines]
    assert len(first) == len(set(first)) == 20
    assert any(group in line for line in command("--list"))
    (described,) = [line.split() for line in command("--describe", "--group", group, "--offsets") if topic in line]
    assert described[:3] == [group, topic, "0"]
    assert int(described[-1]) <= RECORDS - len(first) + 1, "the lag: what was acknowledged is done with"
    broker.kill()
    broker = broker_process(mode=mode, settings=SETTINGS, data=broker.data)
    rest = [line for line in read(RECORDS - 20) if line in lines]
    assert sorted({*first, *rest}) == sorted(lines), "everything was read"
    command("--delete", "--group", group)
    assert not any(group in line for line in command("--list"))


@pytest.mark.parametrize("mode", drawn("classic", "pipelined"))
def test_two_processes_share_one_partition(broker_process, mode, java_tool, share_readers, new_name):
    """Together they read everything, nothing twice; when they have left, nothing is left to read."""
    topic, group = new_name(), new_name()
    broker = broker_process(mode=mode, settings=SETTINGS)
    server = ("--bootstrap-server", broker.bootstrap)
    lines = [f"value-{number}" for number in range(RECORDS)]
    java_tool("ConsoleProducer", *server, "--topic", topic, "--batch-size", "5", text="\n".join(lines))
    java_tool(COMMAND, *server, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    found = share_readers(2, *server, "--topic", topic, "--group", group, "--command-property", "max.poll.records=5")
    assert sorted(found) == sorted(lines)
    described = java_tool(COMMAND, *server, "--describe", "--group", group, "--offsets")
    assert [line.split()[-1] for line in described if topic in line] == ["0"], "the lag: all is acknowledged"


@pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
def test_what_kafka_s_verifiable_consumer_acknowledges_is_acknowledged(broker_process, mode, java_tool, new_name):
    """Each acknowledgement by itself, and each one succeeds."""
    topic, group = new_name(), new_name()
    broker = broker_process(mode=mode, settings=SETTINGS)
    server = ("--bootstrap-server", broker.bootstrap)
    java_tool("ConsoleProducer", *server, "--topic", topic, text="\n".join(map(str, range(RECORDS))))
    java_tool(COMMAND, *server, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    limits = ("--max-messages", str(RECORDS), "--acknowledgement-mode", "sync")
    told = java_tool("VerifiableShareConsumer", *server, "--topic", topic, "--group-id", group, *limits)
    events = [json.loads(line) for line in told if line.startswith("{")]
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert acknowledged
    assert all(event["success"] for event in acknowledged)
    assert sum(event["count"] for event in acknowledged) == RECORDS
