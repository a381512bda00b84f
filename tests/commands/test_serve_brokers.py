"""`serve --brokers N`: several broker processes on one machine, as clients and operators see them."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.apis.wire_client import WireClient
from tests.conftest import start_broker
from tests.crashes.lengths import drawn
from tests.forks import PROGRAM, run_command
from tests.pyspark_pipeline_broker.stored_rows import rows

pytestmark = [pytest.mark.clients, pytest.mark.faults]
SECONDS_MAX = 30.0
TOPICS = ("t", "copy")
BROKER = 4


class Cluster:
    """A supervisor and the brokers that it has started."""

    def __init__(self, directory, mode="pipelined", brokers=3, *, metrics=False, program=PROGRAM, **options):
        self.supervisor = start_broker(
            directory,
            mode=mode,
            arguments=["--brokers", str(brokers), *(["--metrics", "0"] if metrics else [])],
            settings=["group.initial.rebalance.delay.ms=0"],
            program=program,
            **options,
        )
        self.data = directory / "data"
        self.brokers = {each.node_id: each for each in self.metadata(self.supervisor.port).brokers}

    @staticmethod
    def metadata(port, *topics):
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        with WireClient("127.0.0.1", port) as client:
            return client.ask(MetadataRequest(wanted, allow_auto_topic_creation=False), MetadataResponse, 12)

    def bootstrap(self, node_id):
        return f"127.0.0.1:{self.brokers[node_id].port}"

    def pid(self, node_id):
        """Return the process of a broker, which writes it into the lock of its directory."""
        wait(lambda: (self.data / str(node_id) / ".lock").read_text().endswith("\n"))
        return int((self.data / str(node_id) / ".lock").read_text())

    def kill(self, node_id):
        os.kill(self.pid(node_id), signal.SIGKILL)

    def wait_led(self, node_id, topic="t"):
        """Wait until all brokers show the partitions of a broker with their leader, and it answers itself."""

        def is_led():
            for broker in self.brokers.values():
                partitions = self.metadata(broker.port, topic).topics[0].partitions
                if {partition.leader_id for partition in partitions} != set(self.brokers):
                    return False
            return True

        wait(is_led)


def wait(check):
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        with contextlib.suppress(OSError, AssertionError):
            if check():
                return
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.05)


@pytest.fixture(scope="module", params=["classic", "pipelined"])
def cluster(request, tmp_path_factory):
    from confluent_kafka.admin import AdminClient, NewTopic

    cluster = Cluster(tmp_path_factory.mktemp("cluster"), request.param)
    # A broker that is not the controller forwards the request to it.
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap(2)})
    for created in admin.create_topics([NewTopic(name, 6, 1) for name in TOPICS]).values():
        created.result(SECONDS_MAX)
    yield cluster
    cluster.supervisor.stop()
    cluster.supervisor.process.stdout.close()


def produce(bootstrap, values, topic="t", **config):
    from confluent_kafka import Producer

    failed = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **config})
    for value in values:
        producer.produce(topic, key=value, value=value, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert not failed


def consume(bootstrap, group, wanted, topic="t"):
    """Return the values that a group receives until it has the wanted ones, and the consumer with its assignment."""
    from confluent_kafka import Consumer

    config = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "enable.auto.commit": False, "isolation.level": "read_committed"})
    consumer.subscribe([topic])
    values, deadline = [], time.monotonic() + SECONDS_MAX
    while not set(wanted).issubset(values) and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
    consumer.commit(asynchronous=False)
    assert set(wanted).issubset(values)
    assert len(set(values)) == len(values), "each record once"
    return values, consumer


def test_partitions_are_spread_and_all_brokers_show_the_same_leaders_at_once(cluster):
    shown = [cluster.metadata(broker.port, *TOPICS) for broker in cluster.brokers.values()]
    leaders = [
        {(topic.name, it.partition_index): it.leader_id for topic in each.topics for it in topic.partitions}
        for each in shown
    ]
    assert leaders[0] == leaders[1] == leaders[2]
    assert sorted(leaders[0].values()) == sorted([1, 2, 3] * 4)
    assert {each.controller_id for each in shown} == {1}
    assert len({each.cluster_id for each in shown}) == 1


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_records_arrive_once_with_any_broker_as_bootstrap(cluster, node_id):
    values = [f"{node_id}-{number}" for number in range(60)]
    produce(cluster.bootstrap(node_id), values)
    _, consumer = consume(cluster.bootstrap(node_id % 3 + 1), f"group-{node_id}", values)
    consumer.close()


def test_a_transaction_over_all_brokers_commits_or_aborts_as_a_whole(cluster):
    from confluent_kafka import Producer

    committed, aborted = [f"c{number}" for number in range(60)], [f"a{number}" for number in range(60)]
    for name, values, is_commit in (("x", committed, True), ("y", aborted, False)):
        producer = Producer({"bootstrap.servers": cluster.bootstrap(3), "transactional.id": name})
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
        for value in values:
            producer.produce("copy", key=value, value=value)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(SECONDS_MAX)
    received, consumer = consume(cluster.bootstrap(1), "readers", committed, "copy")
    assert sorted(received) == sorted(committed)
    # The offsets are part of a transaction whose coordinator may be another broker than the group's.
    producer = Producer({"bootstrap.servers": cluster.bootstrap(2), "transactional.id": "copier"})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS_MAX)
    producer.commit_transaction(SECONDS_MAX)
    stored = consumer.committed(consumer.assignment(), SECONDS_MAX)
    assert {it.partition: it.offset for it in stored} == {it.partition: it.offset for it in positions}
    consumer.close()


@pytest.mark.parametrize("node_id", [1, 2])
def test_a_killed_broker_is_back_with_all_acknowledged_records(cluster, node_id):
    values = [f"k{node_id}-{number}" for number in range(120)]
    produce(cluster.bootstrap(3), values[:60])
    before = cluster.pid(node_id)
    cluster.kill(node_id)
    wait(lambda: cluster.pid(node_id) != before)
    cluster.wait_led(node_id)
    produce(cluster.bootstrap(3), values[60:])
    _, consumer = consume(cluster.bootstrap(3), f"after-{node_id}", values)
    consumer.close()
    assert f"broker {node_id} ended with exit code -9 and is started again" in cluster.supervisor.stderr


@pytest.mark.parametrize("cluster", drawn("classic", "pipelined"), indirect=True)
def test_inspect_and_the_spark_source_read_the_data_of_all_brokers(cluster):
    values = [f"s-{number}" for number in range(60)]
    produce(cluster.bootstrap(1), values)
    found = rows(cluster.data, subscribe="t")
    assert sorted(row["value"].decode() for row in found if row["value"].startswith(b"s-")) == sorted(values)
    assert {row["partition"] for row in found} == set(range(6))
    command = ["inspect", cluster.data, "--topic"]
    text = run_command(*command, "t").stdout
    assert re.findall(r"^broker (\d): ", text, re.MULTILINE) == ["1", "2", "3"]
    lines = run_command(*command, "t", "--json", "--show", "entries").stdout.splitlines()
    batches = [line for line in map(json.loads, lines) if line["type"] in {"entry", "archived_batch"}]
    assert {(line["broker"], line["topic"]) for line in batches} == {(1, "t"), (2, "t"), (3, "t")}
    missing = run_command(*command, "nothing")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)


def test_a_second_supervisor_and_a_single_broker_are_refused_in_one_line(cluster, tmp_path):
    for arguments in (["--brokers", "3"], []):
        found = run_command("serve", "--port", "0", "--data", cluster.data, *arguments)
        assert found.returncode == 2
        assert re.fullmatch(r"Error: the data directory .* is in use by process \d+\. Stop .*\n", found.stderr)


def test_the_data_of_a_single_broker_moves_to_broker_1_and_back(tmp_path):
    def alone():
        return start_broker(tmp_path / "alone", data=tmp_path / "alone" / "data")

    broker = alone()
    produce(broker.bootstrap, ["a", "b"])
    broker.stop()
    broker.process.stdout.close()
    cluster = Cluster(tmp_path / "alone", brokers=2)
    assert "the data of the single broker is now that of broker 1" in cluster.supervisor.stderr
    received, consumer = consume(cluster.bootstrap(2), "g", ["a", "b"])
    consumer.close()
    assert sorted(received) == ["a", "b"]
    cluster.supervisor.stop()
    cluster.supervisor.process.stdout.close()
    found = run_command("serve", "--port", "0", "--data", cluster.data)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert "--brokers 2" in found.stderr


def test_brokers_end_with_their_supervisor(tmp_path):
    cluster = Cluster(tmp_path / "cluster", brokers=2)
    pids = [cluster.pid(node_id) for node_id in cluster.brokers]
    cluster.supervisor.kill()
    cluster.supervisor.process.stdout.close()

    def have_ended():
        return not any(Path(f"/proc/{pid}").exists() for pid in pids)

    wait(have_ended)


def test_settings_of_any_broker_are_changed_through_any_other(cluster):
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap(2)})
    setting = "log.retention.ms"
    for node_id in cluster.brokers:
        entry = ConfigEntry(setting, str(node_id * 1_000_000), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id), incremental_configs=[entry])
        for changed in admin.incremental_alter_configs([resource]).values():
            changed.result(SECONDS_MAX)
    for node_id in cluster.brokers:
        (found,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(node_id))]).values()
        assert found.result(SECONDS_MAX)[setting].value == str(node_id * 1_000_000)


def setting_of(port, name):
    """Return a setting of the broker on a port, as it shows it."""
    node_id = {it.port: it.node_id for it in Cluster.metadata(port).brokers}[port]
    resource = DescribeConfigsRequest.DescribeConfigsResource(BROKER, str(node_id), [name])
    with WireClient("127.0.0.1", port) as client:
        (found,) = client.ask(DescribeConfigsRequest([resource]), DescribeConfigsResponse, 4).results
    (config,) = found.configs
    return config.value


def test_several_listeners_one_metrics_endpoint_and_one_dashboard_serve_all_brokers(tmp_path):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        ports = sorted(it.getsockname()[1] for it in sockets)
    listeners = f"listeners=A://127.0.0.1:{ports[0]},B://127.0.0.1:{ports[1]}"
    protocols = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--brokers", "2", "--data", str(tmp_path / "data")]
    command += [
        "--metrics",
        "0",
        "--dashboard",
        "0",
        "--set",
        listeners,
        "--set",
        protocols,
        "--set",
        "inter.broker.listener.name=A",
    ]
    command += ["--set", f"pipeline.telemetry.file={tmp_path}/clients.json"]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert "brokers=2" in process.stdout.readline()
        for shift, name in enumerate("AB"):
            found = {it.node_id: it.port for it in Cluster.metadata(ports[shift]).brokers}
            assert found == {1: ports[shift], 2: ports[shift] + 2}, name
            assert setting_of(ports[0] + 2 * shift, "pipeline.telemetry.file") == f"{tmp_path}/clients-{shift + 1}.json"
        (url,) = re.findall(r"^metrics on (\S+)$", (tmp_path / "stderr").read_text(), re.MULTILINE)
        text = urllib.request.urlopen(url, timeout=SECONDS_MAX).read().decode()
        assert set(re.findall(r'broker="(\d)"', text)) == {"1", "2"}
        (page,) = re.findall(r"dashboard on (\S+)", (tmp_path / "stderr").read_text())
        shown = json.load(urllib.request.urlopen(f"{page}api/brokers", timeout=SECONDS_MAX))["brokers"]
        assert [(it["id"], it["state"], it["is_controller"]) for it in shown] == [
            (1, "joined", True),
            (2, "joined", False),
        ]
        heads = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
        assert len(heads) == len(set(heads)), "each family once"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
        process.stdout.close()


def test_every_line_of_a_supervisor_is_json_if_wanted(tmp_path):
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--brokers", "2", "--data", str(tmp_path / "data")]
    command += ["--port", "0", "--log-format", "json", "--metrics", "0"]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
    try:
        ready = json.loads(process.stdout.readline())
        assert ready["message"].startswith("listening on 127.0.0.1:")
        os.kill(int((tmp_path / "data" / "2" / ".lock").read_text()), signal.SIGKILL)
        wait(lambda: "started again" in (tmp_path / "stderr").read_text())
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
        process.stdout.close()
    lines = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines()]
    assert "metrics on http://" in lines[0]["message"]
    assert any("broker 2 ended" in line["message"] for line in lines)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_warnings_about_settings_come_once_from_the_supervisor_in_the_format_of_the_log(tmp_path, log_format):
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--brokers", "2", "--data", str(tmp_path / "data")]
    command += ["--port", "0", "--log-format", log_format, "--set", "log.retention.hours=-5"]
    command += ["--set", "log.flush.interval.messages=5"]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
    try:
        assert process.stdout.readline()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
        process.stdout.close()
    lines = (tmp_path / "stderr").read_text().splitlines()
    assert [("keeps records forever" in line, "broker" in line.partition(":")[0]) for line in lines[:1]] == [
        (True, False)
    ]
    assert sum("keeps records forever" in line for line in lines) == 1
    assert sum("log.flush.interval.messages" in line for line in lines) == 1
    if log_format == "json":
        assert json.loads(lines[0])["level"] == "WARNING"


@pytest.mark.parametrize("brokers", [[], ["--brokers", "2"]], ids=["alone", "cluster"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partitions=x"], "Error: num.partitions: 'x' is not allowed: not a number of type int"),
        (["--http-users", "none"], "Error: --http-users"),
    ],
)
def test_an_error_at_startup_is_a_line_in_the_format_of_the_log(tmp_path, arguments, message, brokers):
    command = ["serve", *brokers, "--port", "0", "--data", tmp_path / "data", "--log-format", "json", *arguments]
    found = run_command(*command)
    line = json.loads(found.stderr)
    assert (found.returncode, line["level"]) == (2, "ERROR")
    assert line["message"].startswith(message)
