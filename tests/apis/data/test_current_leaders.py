"""KIP-951: a client that asks a broker that does not lead learns the leader and its address with the error."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import NodeRecord, node_record
from pipeline_broker.state.outcome import Write
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.cluster_desk import BROKERS, ClusterDesk

HERE, NOT_LEADER = 1, ErrorCode.NOT_LEADER_OR_FOLLOWER
ALL = range(len(BROKERS))


@pytest.fixture
def desk():
    desk = ClusterDesk()
    desk.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", len(BROKERS), 1)]), 7)
    return desk


def leaders(desk):
    """Partition -> its leader."""
    records = desk.image.partitions(desk.broker.topics.get("t").topic_id)
    return {number: record.leader for number, record in records.items()}


def produced(desk, version, numbers=ALL):
    records = build_batch([NewRecord(b"v")])
    data = [ProduceRequest.PartitionProduceData(number, records) for number in numbers]
    topic = ProduceRequest.TopicProduceData("t", desk.broker.topics.get("t").topic_id, data)
    return desk.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), version)


def fetched(desk, version, numbers=ALL):
    wanted = [FetchRequest.FetchPartition(number, partition_max_bytes=1000) for number in numbers]
    topic = FetchRequest.FetchTopic("t", desk.broker.topics.get("t").topic_id, wanted)
    return desk.ask(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[topic]), version)


def told(answer):
    """Partition -> (error, leader, epoch), and the ids of the brokers with addresses."""
    found = {}
    for topic in answer.responses:
        for each in getattr(topic, "partition_responses", None) or topic.partitions:
            number = each.index if hasattr(each, "index") else each.partition_index
            found[number] = each.error_code, each.current_leader.leader_id, each.current_leader.leader_epoch
    return found, sorted(each.node_id for each in answer.node_endpoints)


@pytest.mark.parametrize(
    ("ask", "version"), [(produced, 10), (produced, 12), (produced, 13), (fetched, 16), (fetched, 17)]
)
def test_the_leader_of_each_partition_comes_with_the_error(desk, ask, version):
    expected = {
        number: (0, -1, -1) if leader == HERE else (NOT_LEADER, leader, 0) for number, leader in leaders(desk).items()
    }
    assert told(ask(desk, version)) == (expected, [2, 3])


@pytest.mark.parametrize(("ask", "version"), [(produced, 9), (fetched, 15)])
def test_older_versions_carry_the_error_alone(desk, ask, version):
    found, addresses = told(ask(desk, version))
    assert {number: code for number, (code, *_) in found.items()} == {
        number: 0 if leader == HERE else NOT_LEADER for number, leader in leaders(desk).items()
    }
    assert addresses == [] == [leader for _, leader, _ in found.values() if leader != -1]


@pytest.mark.parametrize(("ask", "version"), [(produced, 12), (fetched, 17)])
def test_of_a_broker_that_is_down_the_epoch_alone_is_known(desk, ask, version):
    write = Write("", (node_record(NodeRecord(2, 1, NodeState.FENCED)),))
    desk.submit([desk.broker.append_metadata(write, desk.now_ms)], lambda: desk.broker.node_durable(write))
    (down,) = [number for number, leader in leaders(desk).items() if leader == 2]
    found, addresses = told(ask(desk, version))
    assert (found[down], addresses) == ((NOT_LEADER, -1, 0), [3])


@pytest.mark.parametrize(("ask", "version"), [(produced, 13), (fetched, 17)])
def test_a_request_that_finds_no_partition_here_learns_the_leader_too(desk, ask, version):
    (elsewhere,) = [number for number, leader in leaders(desk).items() if leader == 3]
    assert told(ask(desk, version, [elsewhere])) == ({elsewhere: (NOT_LEADER, 3, 0)}, [3])
