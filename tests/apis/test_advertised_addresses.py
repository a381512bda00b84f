"""Clients receive the address of their own listener. A listener that is not advertised has no broker.

Expected values of the latter are those of Apache Kafka.
"""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.describe_topic_partitions import DescribeTopicPartitionsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.apis.desk import Connection, Desk


@pytest.fixture
def desk():
    desk = Desk()
    desk.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 1, 1)]), 7)
    desk.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    desk.advertised = {"IN": ("inside", 1), "OUT": ("outside", 2), "HIDDEN": None}
    return desk


def come_by(desk, listener):
    desk.connection = Connection()
    desk.connection.listener = listener


@pytest.mark.parametrize(("listener", "address"), [("IN", ("inside", 1)), ("OUT", ("outside", 2))])
def test_each_listener_has_its_address(desk, listener, address):
    come_by(desk, listener)
    (broker,) = desk.ask(MetadataRequest(topics=[]), 13).brokers
    (of_cluster,) = desk.ask(DescribeClusterRequest(), 2).brokers
    (coordinator,) = desk.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6).coordinators
    old = desk.ask(FindCoordinatorRequest(key_type=0, key="g"), 3)
    assert {(each.host, each.port) for each in (broker, of_cluster, coordinator, old)} == {address}


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND), (13, 72)]
)
def test_no_partition_has_a_leader_on_an_unadvertised_listener(desk, version, code):
    come_by(desk, "HIDDEN")
    answer = desk.ask(MetadataRequest(topics=None), version)
    assert answer.brokers == []
    partition = next(topic for topic in answer.topics if topic.name == "t").partitions[0]
    assert (partition.error_code, partition.leader_id, partition.replica_nodes) == (code, -1, [1])
    assert partition.offline_replicas == [1]


def test_an_unadvertised_listener_has_neither_coordinator_nor_broker(desk):
    come_by(desk, "HIDDEN")
    cluster = desk.ask(DescribeClusterRequest(), 2)
    assert (cluster.brokers, cluster.controller_id) == ([], -1)
    (coordinator,) = desk.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6).coordinators
    assert (coordinator.error_code, coordinator.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest("t")])
    (topic,) = desk.ask(request, 0).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (ErrorCode.NONE, -1, [1])
