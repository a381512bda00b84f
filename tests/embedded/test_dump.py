"""The report of an embedded broker has the requests, rules and records of a test, and none of others."""

import datetime as dt
import re
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pipeline_broker import EmbeddedBroker, EmbeddedCluster
from pipeline_broker.embedded.dump import as_html, as_text, is_used, report, seen

SECONDS_MAX = 30
FETCH_WAIT_MS = 20
TIME = r"\d\d:\d\d:\d\d\.\d{3}"


@pytest.fixture
def broker():
    with EmbeddedBroker() as broker:
        yield broker


def text_of(broker, **arguments):
    return as_text(broker, seen(broker, **arguments))


def produce(broker, topic, partition=0, value=b"v"):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "writer"})
    producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


def read(broker, topic, group):
    """Read a record of an assigned topic, and commit."""
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "client.id": "reader"}
    config |= {"auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": FETCH_WAIT_MS}
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.commit(consumer.poll(SECONDS_MAX), asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("size_bytes", [1, 100_000])
def test_a_request_is_reported_with_its_topic_partition_group_and_time(broker, size_bytes):
    broker.create_topic("t", partitions=3)
    broker.create_topic("u")
    produce(broker, "t", 2, bytes(size_bytes))
    produce(broker, "u")
    read(broker, "u", "billing")
    text = text_of(broker)
    assert re.search(rf"^  {TIME} +\d+ +writer +Produce v\d+ +t\[2\] +answered ", text, re.MULTILINE), text
    assert re.search(rf"^  {TIME} +\d+ +reader +OffsetCommit v\d+ +group billing u\[0\] +answered ", text, re.MULTILINE)
    assert re.search(rf"^  {TIME} +\d+ +reader +Fetch v\d+ +u\[0\] +answered ", text, re.MULTILINE), text
    assert re.search(r"^  billing +classic +Empty .* 0$", text, re.MULTILINE), text


def test_times_are_those_of_the_machine_with_its_zone(broker):
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    broker.produce("t", "value")
    text = text_of(broker)
    (told,) = re.findall(r"^  t +0 +0 +(\S+ \S+) +null +value$", text, re.MULTILINE)
    assert before <= dt.datetime.fromisoformat(told) <= dt.datetime.now(dt.UTC)
    broker.create_topic("odd", configs={"message.timestamp.after.max.ms": (1 << 63) - 1})
    for timestamp in (0, 1 << 50):  # in the year 37648
        broker.produce("odd", "v", timestamp=timestamp)
    assert re.search(
        rf"^  odd +0 +0 +19(70|69)-\S+ \S+ +null +v\n  odd +0 +1 +{1 << 50} +null", text_of(broker), re.MULTILINE
    )


def test_an_advanced_clock_is_reported(broker):
    assert "ahead" not in text_of(broker)
    broker.advance(8 * 86_400)
    assert ", its clock 8 days, 0:00:00 ahead\n" in text_of(broker)


def test_earlier_requests_are_not_reported(broker):
    for topic in ("before", "after"):
        broker.create_topic(topic)
        produce(broker, topic)
        read(broker, topic, f"group-{topic}")
        if topic == "before":
            time.sleep(5 * FETCH_WAIT_MS / 1000)  # a fetch that its client has left waits for records until then
            island = broker.island()
            island.__enter__()
    text = text_of(broker)
    island.__exit__(None, None, None)
    assert "after[0]" in text
    assert "group-after" in text
    assert "before" not in text


def test_requests_before_since_ns_are_omitted(broker):
    produce(broker, "before")
    moment_ns = time.monotonic_ns()
    produce(broker, "after")
    text = text_of(broker, since_ns=moment_ns)
    assert "after[0]" in text
    assert "before[0]" not in text


def test_rules_are_reported_with_their_counts(broker):
    broker.create_topic("t")
    rule = broker.faults.when("Produce", topic="t").delay(0.001)
    produce(broker, "t")
    assert re.search(r"^  Produce topic=t: delay 1ms +1 +1$", text_of(broker, rules=[rule]), re.MULTILINE)


def test_contents_are_cut_and_escaped(broker):
    broker.produce("t", "<b>bold</b>", key=b"\xff", headers=[("h", "x")])
    broker.produce("t", "long" * 100)
    text, page = text_of(broker), as_html(broker, seen(broker), "a <title>")
    assert "<b>bold</b>" in text
    assert "... (400 bytes)" in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>bold</b>" not in page
    assert "a &lt;title&gt;" in page
    assert "http" not in page


def test_an_unused_broker_has_an_empty_report(broker):
    assert text_of(broker).count("none") == 3
    assert as_html(broker, seen(broker), "nothing").count("<p>none</p>") == 4


def test_a_topic_whose_metadata_alone_a_client_asks_for_is_not_reported(broker):
    broker.produce("earlier", "of another test")
    with broker.island():
        broker.produce("own", "of this test")
        AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics("earlier", timeout=10)
        assert seen(broker).topics == ["own"]


def test_the_topics_used_last_are_reported(broker):
    for number in reversed(range(12)):
        broker.produce(f"topic-{number:02}", "value")
    text = text_of(broker)
    assert "topic-00" in text
    assert "topic-11" not in text


@pytest.fixture
def cluster():
    """A cluster of two brokers with a record on each, and a group on each that has read all of them."""
    with EmbeddedCluster(brokers=2, settings={"offsets.topic.replication.factor": 1}) as cluster:
        cluster.create_topic("t", partitions=2)
        for number in range(2):
            cluster.produce("t", f"value-{number}", partition=number)
        for group in ("group-0", "group-1", "group-2", "group-3"):
            read(cluster, "t", group)
        yield cluster


def test_a_stopped_broker_hides_only_its_own_partitions_and_groups(cluster, tmp_path):
    leader, page = cluster.leader_of("t", 1), tmp_path / "page.html"
    groups = {f"group-{number}" for number in range(4)}
    hidden = {group for group in groups if cluster.coordinator_of(group) is leader}
    cluster.stop(leader)
    text = report(cluster, (), 0, page, "a title")
    assert text.partition("\n")[0].endswith(f"; stopped brokers: {leader.node_id}")
    assert f"; stopped brokers: {leader.node_id}<" in page.read_text()
    assert hidden
    assert hidden != groups
    assert "OffsetCommit" in text
    assert re.search(r"^  t +0 +0 +\S+ \S+ +null +value-0$", text, re.MULTILINE), text
    assert re.search(rf"^  t +1 .* LEADER_NOT_AVAILABLE: broker {leader.node_id} is stopped$", text, re.MULTILINE), text
    for group in groups:
        state = (
            f"- +COORDINATOR_NOT_AVAILABLE: broker {leader.node_id} is stopped" if group in hidden else "classic +Empty"
        )
        assert re.search(rf"^  {group} +{state} ", text, re.MULTILINE), text
    assert "value-0" in page.read_text()


def test_a_cluster_without_a_running_broker_has_a_report_of_its_requests(cluster):
    for broker in cluster.brokers:
        cluster.stop(broker)
    text = text_of(cluster)
    assert "OffsetCommit" in text
    why = "broker 1, the controller, is stopped; start it first"
    assert f"; stopped brokers: 1, 2; topics and groups are not shown: {why}\n" in text


def test_a_broker_that_has_ended_is_reported_as_it_was(broker, cluster):
    broker.create_topic("t")
    rule = broker.faults.when("Produce", topic="t").delay(0.001)
    produce(broker, "t", value=b"value-0")
    read(broker, "t", "group-0")
    broker.advance(60)
    for each in (broker, cluster):
        each.close()
        assert is_used(each)
        text = text_of(each, rules=[rule])
        assert ", as it was when it ended\n" in text
        assert re.search(r"^  group-0 +classic +Empty .* \d$", text, re.MULTILINE), text
        assert re.search(r"^  t +0 +0 +\S+ \S+ +null +value-0$", text, re.MULTILINE), text
        assert "delay 1ms" in text
        assert "stopped" not in text
    assert ", its clock 0:01:00 ahead" in text_of(broker)


def test_a_broker_whose_disk_failed_is_reported_as_it_was(broker):
    broker.produce("t", "acknowledged")
    broker.faults.disk_when("write").error()
    with pytest.raises(Exception, match="the broker failed"):
        broker.produce("t", "lost")
    text = text_of(broker)
    assert "acknowledged" in text
    assert "lost" not in text
