"""A cluster of brokers inside the test process, as its methods show it."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline_broker import (
    EmbeddedBroker,
    EmbeddedBrokerError,
    EmbeddedCluster,
    ErrorCode,
    FaultError,
    RefusedError,
    WaitTimeoutError,
)
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.apis.wire_client import WireClient
from tests.embedded.clusters import group_on, led_by, metadata, values
from tests.plugin_runs import run_python

pytestmark = pytest.mark.clients

SECONDS_MAX = 30.0
DAY = 86_400


def commit_everywhere(cluster, topic, group):
    for number in range(6):
        cluster.produce(topic, str(number), partition=number)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "log_level": 0})
    offsets = [TopicPartition(topic, number, 1) for number in range(6)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    cluster.wait_committed(group, {(topic, number): 1 for number in range(6)})


def test_partitions_are_spread_and_every_broker_shows_the_same_leaders(cluster, topic):
    found = [metadata(broker, topic) for broker in cluster.brokers]
    leaders = [{it.partition_index: it.leader_id for it in each.topics[0].partitions} for each in found]
    assert leaders[0] == leaders[1] == leaders[2]
    assert sorted(leaders[0].values()) == [1, 1, 2, 2, 3, 3]
    assert {number: cluster.leader_of(topic, number).node_id for number in range(6)} == leaders[0]
    addresses = {broker.node_id: broker.addresses["PLAINTEXT"] for broker in cluster.brokers}
    assert [{it.node_id: (it.host, it.port) for it in each.brokers} for each in found] == [addresses] * 3
    assert cluster.bootstrap_servers == ",".join(f"{host}:{port}" for host, port in addresses.values())


def test_a_record_is_produced_and_read_without_a_client_wherever_its_leader_is(cluster, topic):
    produced = [cluster.produce(topic, str(number), partition=number) for number in range(6)]
    assert cluster.records(topic) == produced
    assert [cluster.records(topic, partition=number) for number in range(6)] == [[it] for it in produced]
    assert cluster.assert_records(topic, map(str, range(6))) == produced
    cluster.produce("created-by-producing", "v")
    assert values(cluster, "created-by-producing") == ["v"]
    cluster.delete_topic(topic)
    assert topic not in cluster.topics()


@pytest.mark.parametrize("node_id", [1, 2])
def test_every_broker_names_the_coordinators_of_groups(cluster, node_id):
    keys = [f"group-{number}" for number in range(12)]
    request, deadline = FindCoordinatorRequest(key_type=0, coordinator_keys=keys), time.monotonic() + SECONDS_MAX
    with WireClient(*cluster.brokers[node_id - 1].addresses["PLAINTEXT"]) as client:
        found = client.ask(request, FindCoordinatorResponse, 6).coordinators
        while found[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:  # the first request creates the topic
            assert time.monotonic() < deadline
            found = client.ask(request, FindCoordinatorResponse, 6).coordinators
    assert [it.node_id for it in found] == [cluster.coordinator_of(key).node_id for key in keys]
    assert {it.node_id for it in found} == {1, 2, 3}


@pytest.mark.parametrize("node_id", [1, 3])
def test_the_partitions_of_a_stopped_broker_have_no_leader_and_its_data_returns(cluster, topic, node_id):
    broker = cluster.brokers[node_id - 1]
    for number in range(6):
        cluster.produce(topic, str(number), partition=number)
    led = led_by(broker, topic)
    address = broker.addresses["PLAINTEXT"]
    cluster.stop(broker)
    assert [each.is_running for each in cluster.brokers] == [each is not broker for each in cluster.brokers]
    for other in cluster.brokers:
        if other is not broker:
            (shown,) = metadata(other, topic).topics
            codes = {it.partition_index: it.error_code for it in shown.partitions if it.error_code}
            assert codes == dict.fromkeys(led, ErrorCode.LEADER_NOT_AVAILABLE)
    with pytest.raises(ConnectionRefusedError):
        metadata(broker)
    number = min(led)
    for call in (
        lambda: cluster.leader_of(topic, number),
        lambda: cluster.records(topic),
        lambda: cluster.records(topic, partition=number),
        lambda: cluster.produce(topic, "v", partition=number),
    ):
        with pytest.raises(RefusedError, match=f"LEADER_NOT_AVAILABLE: broker {node_id} is stopped") as caught:
            call()
        assert caught.value.code == ErrorCode.LEADER_NOT_AVAILABLE
    left = min({*range(6)} - led)
    assert values(cluster, topic, partition=left) == [str(left)]
    assert cluster.start(broker) is cluster
    assert broker.addresses["PLAINTEXT"] == address
    assert values(cluster, topic) == list("012345")
    cluster.produce(topic, "again", partition=number)
    assert "again" in values(cluster, topic)


def test_no_method_reports_nothing_for_the_partitions_of_a_stopped_broker(cluster, topic):
    first, second, _ = cluster.brokers
    commit_everywhere(cluster, topic, group := group_on(cluster, first))
    led, left = min(led_by(second, topic)), min(led_by(first, topic))
    cluster.stop(second)
    after = ", after 0.05 s"
    for asked, end, call in (
        ("assert_records('t')", after, lambda: cluster.assert_records(topic, ["0"], timeout=0.05)),
        ("assert_records('t')", after, lambda: cluster.assert_records(topic, ["0"], partition=led, timeout=0.05)),
        ("assert_records('t')", "", lambda: cluster.assert_records(topic, [])),
        ("wait_records('t')", after, lambda: cluster.wait_records(topic, 1, timeout=0.05)),
        ("wait_fetching('t')", after, lambda: cluster.wait_fetching(topic, timeout=0.05)),
        (f"wait_committed({group!r})", after, lambda: cluster.wait_committed(group, timeout=0.05)),
        (f"lag({group!r})", "", lambda: cluster.lag(group)),
    ):
        with pytest.raises(RefusedError) as caught:
            call()
        assert str(caught.value) == f"{asked}: LEADER_NOT_AVAILABLE: broker 2 is stopped{end}"
    cluster.assert_records(topic, [str(left)], partition=left)
    assert cluster.offsets(group) == {(topic, number): 1 for number in range(6)}
    assert cluster.wait_committed(group, {(topic, led): 1}) == cluster.offsets(group)


@pytest.fixture
def cluster_of_one_copy():
    with EmbeddedCluster(settings={"offsets.topic.replication.factor": 1}) as cluster:
        cluster.create_topic("t", partitions=6)
        yield cluster


def test_no_method_reports_nothing_for_the_groups_of_a_stopped_broker(cluster_of_one_copy):
    cluster, topic = cluster_of_one_copy, "t"
    first, second, _ = cluster.brokers
    commit_everywhere(cluster, topic, group := group_on(cluster, second))
    other = group_on(cluster, first)
    cluster.stop(second)
    for asked, call in {
        "groups()": cluster.groups,
        f"offsets({group!r})": lambda: cluster.offsets(group),
        f"lag({group!r})": lambda: cluster.lag(group),
        f"coordinator_of({group!r})": lambda: cluster.coordinator_of(group),
        f"expire_member({group!r})": lambda: cluster.expire_member(group),
        f"expire_member({group!r}) ": lambda: cluster.faults.expire_member(group),
        f"force_rebalance({group!r})": lambda: cluster.faults.force_rebalance(group),
    }.items():
        with pytest.raises(RefusedError) as caught:
            call()
        assert str(caught.value) == f"{asked.strip()}: COORDINATOR_NOT_AVAILABLE: broker 2 is stopped"
    for wait in cluster.wait_assigned, cluster.wait_committed:
        with pytest.raises(RefusedError, match=r"COORDINATOR_NOT_AVAILABLE: broker 2 is stopped, after 0\.05 s$"):
            wait(group, timeout=0.05)
    assert cluster.offsets(other) == cluster.lag(other) == {}
    with pytest.raises(WaitTimeoutError, match="does not exist"):
        cluster.wait_assigned(other, timeout=0.05)
    cluster.start(second)
    assert [each.group_id for each in cluster.groups()] == [group]


def test_a_wait_continues_while_a_broker_is_stopped_and_started(cluster, topic):
    number = min(led_by(cluster.brokers[1], topic))
    cluster.produce(topic, "v", partition=number)
    cluster.stop(cluster.brokers[1])
    timer = threading.Timer(0.05, lambda: cluster.start(cluster.brokers[1]))
    timer.start()
    assert len(cluster.wait_records(topic, partition=number, timeout=SECONDS_MAX)) == 1
    timer.join()


def test_a_second_stop_or_start_is_refused(cluster):
    first, second, _ = cluster.brokers
    with pytest.raises(EmbeddedBrokerError, match=r"^start: broker 2 runs already$"):
        cluster.start(second)
    cluster.stop(second)
    with pytest.raises(EmbeddedBrokerError, match=r"^stop: broker 2 is stopped already$"):
        cluster.stop(second)
    with pytest.raises(EmbeddedBrokerError, match=r"^kill: broker 2 is stopped already$"):
        cluster.kill(second)
    with pytest.raises(EmbeddedBrokerError, match=r"^broker 2 is stopped"):
        second.on_loop(lambda running: running)
    cluster.stop(first)
    for refused in (lambda: cluster.start(second), lambda: cluster.create_topic("new")):
        with pytest.raises(EmbeddedBrokerError, match=r"^broker 1, the controller, is stopped; start it first$"):
            refused()
    with pytest.raises(EmbeddedBrokerError, match=r"^stop needs an item of cluster.brokers, not 2$"):
        cluster.stop(2)
    with pytest.raises(EmbeddedBrokerError, match=r"^start: the cluster was started before; pass the broker"):
        cluster.start()
    cluster.start(first)


def test_a_rule_of_the_cluster_is_logged_once(cluster, caplog):
    rule = cluster.faults.when("Metadata").error("TOPIC_AUTHORIZATION_FAILED")
    cluster.faults.remove(rule)
    logged = [record.getMessage() for record in caplog.records if "fault rule" in record.getMessage()]
    assert len(logged) == 2
    assert [" is active: " in logged[0], " was removed after 0 hits" in logged[1]] == [True, True]


def test_all_brokers_can_be_stopped_and_started(cluster, topic):
    cluster.produce(topic, "kept")
    for broker in reversed(cluster.brokers):
        cluster.stop(broker)
    with pytest.raises(EmbeddedBrokerError, match=r"^broker 1, the controller, is stopped"):
        cluster.topics()
    for broker in cluster.brokers:
        cluster.start(broker)
    assert values(cluster, topic) == ["kept"]


def test_a_rule_of_the_cluster_counts_the_requests_to_all_brokers_together(cluster, topic):
    rule = cluster.faults.when("Metadata", topic=topic, nth=2).error("TOPIC_AUTHORIZATION_FAILED")
    codes = [metadata(broker, topic).topics[0].error_code for broker in cluster.brokers]
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE]
    assert (rule.matched, rule.hits) == (3, 1)
    assert cluster.faults.rules == [rule]
    cluster.faults.remove(rule)
    assert cluster.faults.rules == []
    assert all(broker.faults.rules == [] for broker in cluster.brokers)


def test_a_rule_of_a_broker_applies_there_only(cluster, topic):
    first, second, _ = cluster.brokers
    rule = second.faults.when("Metadata", topic=topic).error("TOPIC_AUTHORIZATION_FAILED")
    later = cluster.faults.when("Fetch", topic=topic, p=0.5).drop()
    assert [bool(metadata(broker, topic).topics[0].error_code) for broker in cluster.brokers] == [False, True, False]
    assert (first.faults.rules, second.faults.rules) == ([later], [rule, later])
    with pytest.raises(FaultError, match=r"for one broker of a cluster; use the faults of cluster.brokers"):
        cluster.faults.disk_when("sync").error()
    assert cluster.faults.clear() == 2


def test_requests_that_a_rule_of_the_cluster_holds_continue_at_every_broker(cluster, topic):
    rule = cluster.faults.when("Metadata", topic=topic).pause()
    with ThreadPoolExecutor() as threads:
        asked = [threads.submit(metadata, broker, topic) for broker in cluster.brokers]
        deadline = time.monotonic() + SECONDS_MAX
        while cluster.faults.held_by(rule) < 3:
            assert time.monotonic() < deadline
        assert cluster.brokers[0].faults.held_by(rule) == 1
        assert cluster.faults.release(rule)
        assert all(it.result().topics for it in asked)
    assert not cluster.faults.release(rule)


def test_a_member_is_expired_at_its_coordinator(cluster, topic):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.subscribe([topic])
    consumer.poll(0)
    (member,) = cluster.wait_assigned("g").members
    assert cluster.expire_member("g") == member.member_id
    with pytest.raises(FaultError):
        cluster.faults.expire_member("g", member.member_id)
    deadline = time.monotonic() + SECONDS_MAX
    # librdkafka may hang in `close` while it rejoins.
    while not (cluster.groups()[0].state == "Stable" and consumer.assignment()):
        assert time.monotonic() < deadline
        consumer.poll(0.02)
    consumer.close()
    with pytest.raises(EmbeddedBrokerError, match="the group 'unknown' does not exist"):
        cluster.expire_member("unknown")


def test_a_broker_whose_disk_fails_ends_alone_and_returns_with_what_it_acknowledged(cluster, topic):
    broker = cluster.brokers[1]
    led, other = min(led_by(broker, topic)), min(led_by(cluster.brokers[0], topic))
    cluster.produce(topic, "acknowledged", partition=led)
    broker.faults.disk_when("write").error()
    with pytest.raises(EmbeddedBrokerError, match="the broker failed"):
        cluster.produce(topic, "lost", partition=led)
    cluster.produce(topic, "elsewhere", partition=other)
    deadline = time.monotonic() + SECONDS_MAX
    while broker.is_running:
        assert time.monotonic() < deadline
    cluster.start(broker)
    assert values(cluster, topic) == ["acknowledged", "elsewhere"]


@pytest.mark.parametrize("stopped", [(2, 0), (0, 1, 2), (2, 1, 0)])
def test_an_island_undoes_stops_rules_and_groups(cluster, stopped):
    cluster.create_topic("of-the-island", partitions=6)
    with cluster.island() as island:
        made = cluster.brokers[1].faults.when("Fetch").delay("1ms")
        whole = cluster.faults.when("Produce").delay("1ms")
        assert sorted(island.rules, key=id) == sorted([made, whole], key=id)
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        for number in range(6):
            consumer = Consumer({**config, "group.id": f"island-{number}"})
            consumer.subscribe(["of-the-island"])
            consumer.poll(0)
            cluster.wait_assigned(f"island-{number}")
            consumer.close()
        for number in stopped:
            cluster.stop(cluster.brokers[number])
    assert all(broker.is_running for broker in cluster.brokers)
    assert cluster.faults.rules == []
    assert cluster.groups() == []


def test_a_cluster_that_is_closed_in_an_island_returns_with_its_data(cluster, topic):
    cluster.produce(topic, "before", partition=1)
    addresses = [broker.addresses for broker in cluster.brokers]
    with cluster.island():
        cluster.stop(cluster.brokers[1])
        cluster.close()
    assert [broker.addresses for broker in cluster.brokers] == addresses
    assert values(cluster, topic) == ["before"]


def test_time_and_snapshots_are_of_all_brokers(cluster):
    cluster.create_topic("aging", partitions=3, configs={"retention.ms": 7 * DAY * 1000})
    for number in range(3):
        cluster.produce("aging", "old", partition=number)
    before = cluster.snapshot()
    cluster.advance(8 * DAY)
    assert cluster.records("aging") == []
    cluster.restore(before)
    assert values(cluster, "aging") == ["old"] * 3
    with EmbeddedBroker() as alone, pytest.raises(EmbeddedBrokerError, match=r"of 1 brokers, and here are 3$"):
        cluster.restore(alone.snapshot())
    cluster.reset()
    assert cluster.topics() == {}
    assert all(broker.is_running for broker in cluster.brokers)


def test_a_wait_sees_records_of_any_broker_and_names_the_count(cluster, topic):
    timer = threading.Timer(0.05, lambda: [cluster.produce(topic, "v", partition=number) for number in range(6)])
    timer.start()
    assert len(cluster.wait_records(topic, 6)) == 6
    timer.join()
    with pytest.raises(WaitTimeoutError, match="has 6 of 7 records"):
        cluster.wait_records(topic, 7, timeout=0.01)


def test_an_unknown_partition_or_group_is_refused(cluster, topic):
    with pytest.raises(RefusedError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.leader_of(topic, 6)
    with pytest.raises(RefusedError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.leader_of("unknown", 0)
    with pytest.raises(EmbeddedBrokerError, match="leader_of: partition needs a whole number"):
        cluster.leader_of(topic, "0")
    with EmbeddedCluster(brokers=2) as other, pytest.raises(RefusedError, match="COORDINATOR_NOT_AVAILABLE"):
        other.coordinator_of("g")


def test_other_systems_than_linux_are_refused_in_one_line(monkeypatch):
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with pytest.raises(EmbeddedBrokerError, match="a cluster runs on Linux only"):
        EmbeddedCluster()


def test_a_cluster_whose_second_broker_cannot_listen_ends_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(EmbeddedBrokerError, match=rf"^cannot listen on 127.0.0.1:{port}: Address already in use"):
        EmbeddedCluster(settings={"listeners": f"PLAINTEXT://127.0.0.1:{port}"}).start()


def test_wrong_arguments_are_refused():
    with pytest.raises(EmbeddedBrokerError, match="needs 2 to 64, not 1; one alone is an EmbeddedBroker"):
        EmbeddedCluster(brokers=1)
    with pytest.raises(EmbeddedBrokerError, match=r"ids 1, 2 and so on; remove node.id"):
        EmbeddedCluster(settings={"node.id": 7})
    with pytest.raises(EmbeddedBrokerError, match="settings needs a mapping"):
        EmbeddedCluster(settings=3)
    with pytest.raises(EmbeddedBrokerError, match="not started"):
        _ = EmbeddedCluster().brokers[0].addresses


def test_the_directory_of_the_sockets_is_private_and_ends_with_the_cluster():
    with EmbeddedCluster(brokers=2) as cluster:
        (directory,) = cluster.on_loop(lambda running: {running.broker.ports.cluster._directory})
        assert Path(directory).stat().st_mode & 0o777 == 0o700
        assert sorted(path.name for path in directory.iterdir()) == ["1.socket", "2.socket"]
    assert not directory.exists()


def test_a_program_that_closes_nothing_leaves_no_directory(tmp_path):
    run = run_python(
        tmp_path.parent,
        "-c",
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]; from pipeline_broker import EmbeddedCluster;"
        "cluster = EmbeddedCluster(brokers=2).start(); print(os.listdir(sys.argv[1]))",
        str(tmp_path),
    )
    assert run.stdout.startswith("['embedded-cluster-"), run.stderr
    assert list(tmp_path.iterdir()) == []
