"""The page of brokers lists each member with its state, and all partitions with their leaders."""

from types import SimpleNamespace

from pipeline_broker.base.steps import finished
from pipeline_broker.broker.cluster_members import ClusterMembers
from pipeline_broker.dashboard.brokers_view import brokers
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import (
    ListenerAddress,
    NodeRecord,
    PartitionKey,
    PartitionRecord,
    node_record,
    partition_record,
)
from pipeline_broker.state.metadata_records import Topic

TOPICS = [Topic(f"t{number}", bytes([number] * 16), 3) for number in range(100)]


def shown(members):
    topics = SimpleNamespace(all=lambda: TOPICS)
    return finished(brokers(SimpleNamespace(members=members, topics=topics)))["brokers"]


def test_a_single_broker_has_an_empty_list():
    assert shown(None) == []


def test_members_have_their_state_and_the_controller_leads_partitions_without_a_record():
    members = ClusterMembers(1, controller_id=1)
    address = {"PLAINTEXT": ListenerAddress("127.0.0.1", 9092)}
    for node in (NodeRecord(2, 7, NodeState.FENCED, address), NodeRecord(1, 1, NodeState.JOINED, address)):
        record = node_record(node)
        members.replay_leader(record.key, record.value)
    for topic in TOPICS[:10]:
        record = partition_record(PartitionKey(topic.topic_id, 0), PartitionRecord(2, 0, (2,)))
        members.replay_leader(record.key, record.value)
    first, second = shown(members)
    assert (first["id"], first["state"], first["is_controller"], first["partitions"]) == (1, "joined", True, 290)
    assert (second["id"], second["state"], second["is_controller"], second["partitions"]) == (2, "fenced", False, 10)
    assert (second["starts"], second["listeners"]) == (7, ["PLAINTEXT://127.0.0.1:9092"])
