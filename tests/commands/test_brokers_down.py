"""`serve --brokers N` with brokers that end or hang: SIGSTOP suspends a process, as a blocked event loop would."""

import contextlib
import json
import os
import re
import signal
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.node.supervisor import DEATHS_MAX
from tests.commands.test_serve_brokers import SECONDS_MAX, Cluster, consume, wait
from tests.crashes.lengths import drawn

pytestmark = [pytest.mark.clients, pytest.mark.faults]
IMPATIENT = (str(Path(__file__).parent / "impatient_supervisor.py"),)
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "operating.md"
PACE_SECONDS = 0.005


@contextlib.contextmanager
def running(directory, **options):
    from confluent_kafka.admin import AdminClient, NewTopic

    cluster = Cluster(directory, metrics=True, **options)
    try:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap(1)})
        admin.create_topics([NewTopic("t", 6, 1)])["t"].result(SECONDS_MAX)
        yield cluster
    finally:
        for node_id in cluster.brokers:
            with contextlib.suppress(OSError, ValueError):
                os.kill(cluster.pid(node_id), signal.SIGCONT)
        cluster.supervisor.stop()
        cluster.supervisor.process.stdout.close()


class Load:
    """A producer that sends records with acks=all in a thread, and the acknowledged ones."""

    def __init__(self, bootstrap):
        from confluent_kafka import Producer

        self.acknowledged, self.failed = [], []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(SECONDS_MAX) == 0
        assert not self.failed

    def _run(self):
        number = 0
        while not self._ended.wait(PACE_SECONDS):
            self._producer.produce("t", str(number), str(number), on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error, message):
        self.failed.append(error) if error else self.acknowledged.append(message.value().decode())


def reason(url):
    """Return the reason of the ready probe; None if it succeeds."""
    try:
        urllib.request.urlopen(url.replace("/metrics", "/readyz"), timeout=SECONDS_MAX).close()
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)["error"]


def down(url):
    """Return the ids of the brokers that the metrics show as down."""
    scraped = urllib.request.urlopen(url, timeout=SECONDS_MAX).read().decode()
    return re.findall(r'^pipeline_broker_up\{broker="(\d)"\} 0$', scraped, re.MULTILINE)


def alerts(url):
    """Return the metrics whose alert of the guide, a comparison with 0, fires."""
    scraped = urllib.request.urlopen(url, timeout=SECONDS_MAX).read().decode()
    return {
        name
        for name, operator in re.findall(r"^\| `(?:max\()?(\w+)\)? (==|>) 0`", GUIDE.read_text("utf-8"), re.MULTILINE)
        for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", scraped, re.MULTILINE)
        if (float(value) == 0 if operator == "==" else float(value) > 0)
    }


def test_a_broker_that_stands_still_is_shown_and_no_acknowledged_record_is_lost(tmp_path):
    with running(tmp_path / "cluster") as cluster:
        (url,) = re.findall(r"^metrics on (\S+)$", cluster.supervisor.stderr, re.MULTILINE)
        with Load(cluster.bootstrap(2)) as load:
            for node_id in drawn(1, 2, 3, count=2):  # 1 is the controller
                pid, other = cluster.pid(node_id), cluster.brokers[node_id % 3 + 1].port
                os.kill(pid, signal.SIGSTOP)
                line = f"broker {node_id} (process {pid}) has not answered for 5 s."
                wait(lambda: line in cluster.supervisor.stderr)  # noqa: B023 - called at once
                wait(lambda: reason(url) == f"without broker {node_id} (not answering)")  # noqa: B023 - as above
                wait(lambda: down(url) == [str(node_id)])  # noqa: B023 - as above
                # It is not fenced: it may continue at any time, and would acknowledge records.
                leaders = {it.leader_id for it in cluster.metadata(other, "t").topics[0].partitions}
                assert leaders == set(cluster.brokers)
                os.kill(pid, signal.SIGCONT)
                wait(lambda: f"broker {node_id} answers again" in cluster.supervisor.stderr)  # noqa: B023 - as above
                wait(lambda: reason(url) is None)
                assert cluster.pid(node_id) == pid
            before = len(load.acknowledged)
            wait(lambda: len(load.acknowledged) > before)
        values, consumer = consume(cluster.bootstrap(1), "g", load.acknowledged)
        consumer.close()
        assert set(values) == set(load.acknowledged)


@pytest.mark.parametrize("node_id", drawn(1, 2))
def test_a_hung_broker_is_killed_and_started_again_also_while_the_cluster_stops(tmp_path, node_id):
    with running(tmp_path / "cluster", brokers=2, program=IMPATIENT) as cluster:
        with Load(cluster.bootstrap(2)) as load:
            pid = cluster.pid(node_id)
            os.kill(pid, signal.SIGSTOP)
            wait(lambda: f"broker {node_id} has not answered for 6 s and is killed" in cluster.supervisor.stderr)
            wait(lambda: cluster.pid(node_id) != pid)
            cluster.wait_led(node_id)
        values, consumer = consume(cluster.bootstrap(1), "g", load.acknowledged)
        consumer.close()
        assert set(values) == set(load.acknowledged)
        assert f"broker {node_id} ended with exit code -9 and is started again" in cluster.supervisor.stderr
        os.kill(cluster.pid(node_id), signal.SIGSTOP)
        cluster.supervisor.stop()


@pytest.mark.parametrize("node_id", drawn(1, 2))
def test_a_broker_that_dies_again_and_again_stays_down_until_a_hangup_and_the_others_serve(tmp_path, node_id):
    from confluent_kafka.admin import AdminClient, NewTopic

    cluster = Cluster(tmp_path / "cluster", brokers=2, metrics=True)
    (url,) = re.findall(r"^metrics on (\S+)$", cluster.supervisor.stderr, re.MULTILINE)
    wait(lambda: reason(url) is None)
    assert not alerts(url)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap(1)})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(SECONDS_MAX)
    last = None
    for _ in range(DEATHS_MAX):
        wait(lambda: cluster.pid(node_id) != last)  # noqa: B023 - called at once
        last = cluster.pid(node_id)
        time.sleep(0.2)
        os.kill(last, signal.SIGKILL)
    wait(lambda: f"broker {node_id} ended 5 times in 60 s and stays down. Correct the" in cluster.supervisor.stderr)
    other = 3 - node_id

    def shown():
        (topic,) = cluster.metadata(cluster.brokers[other].port, "t").topics
        return sorted((it.leader_id, it.error_code) for it in topic.partitions)

    wait(lambda: shown() == [(-1, ErrorCode.LEADER_NOT_AVAILABLE), (other, ErrorCode.NONE)])
    assert reason(url) == f"without broker {node_id}"
    wait(lambda: alerts(url) == {"pipeline_broker_up", "kafka_controller_kafkacontroller_offlinepartitionscount"})
    scraped = urllib.request.urlopen(url, timeout=SECONDS_MAX).read().decode()
    assert f'pipeline_broker_ends_total{{broker="{node_id}"}} {DEATHS_MAX}' in scraped
    assert f'kafka_controller_kafkacontroller_fencedbrokercount{{broker="{other}"}} 1' in scraped
    assert f'kafka_controller_kafkacontroller_activebrokercount{{broker="{other}"}} 1' in scraped
    assert f'kafka_controller_kafkacontroller_offlinepartitionscount{{broker="{other}"}} 1' in scraped
    assert cluster.metadata(cluster.brokers[other].port).controller_id == (-1 if node_id == 1 else 1)
    assert f"start it with `kill -HUP {cluster.supervisor.pid}`" in cluster.supervisor.stderr
    os.kill(cluster.supervisor.pid, signal.SIGHUP)
    wait(lambda: cluster.pid(node_id) != last)
    cluster.wait_led(node_id)
    last = cluster.pid(node_id)
    os.kill(last, signal.SIGKILL)  # its earlier ends no longer count
    wait(lambda: cluster.pid(node_id) != last)
    cluster.wait_led(node_id)
    wait(lambda: reason(url) is None)
    wait(lambda: not alerts(url))
    cluster.supervisor.stop()
    cluster.supervisor.process.stdout.close()
