"""The view of a broker on a cluster of several."""

import attrs
import pytest

from pipeline_broker.broker.cluster_leadership import ClusterLeadership
from pipeline_broker.broker.cluster_members import ClusterMembers
from pipeline_broker.broker.leadership import NO_BROKER
from pipeline_broker.state.leadership.nodes import NodeState
from pipeline_broker.state.leadership.records import (
    NodeRecord,
    PartitionKey,
    PartitionRecord,
    node_record,
    partition_record,
)
from pipeline_broker.state.metadata_records import Topic

TOPIC = Topic("t", bytes(range(16)), 6)


@attrs.define
class Topics:
    """A catalogue with the topic alone."""

    partitions = TOPIC.partitions

    @staticmethod
    def get(name):
        return TOPIC if name == TOPIC.name else None


def view_of(broker_id):
    """Return a broker's view and members. Partition 0 has no record, the others have the leaders 2, 2, 2, 3, 1."""
    members = ClusterMembers(broker_id, controller_id=1)
    records = [node_record(NodeRecord(node_id, 1)) for node_id in (1, 2, 3)]
    for number, leader in enumerate((2, 2, 2, 3, 1), 1):
        record = PartitionRecord(leader, 0, (leader,))
        records.append(partition_record(PartitionKey(TOPIC.topic_id, number), record))
    for record in records:
        members.replay_leader(record.key, record.value)
    return ClusterLeadership(members, lambda _: None, lambda _, __: 0, Topics()), members


@pytest.mark.parametrize("broker_id", [1, 2, 3])
@pytest.mark.parametrize(
    ("down", "offline"), [((), 0), ((2,), 3), ((3,), 1), ((2, 3), 4), ((1,), 2), ((1, 2), 5)], ids=str
)
def test_each_broker_counts_the_partitions_whose_leaders_are_down(broker_id, down, offline):
    leadership, members = view_of(broker_id)
    for node_id in down:
        if node_id == 1:
            members.is_controller_down = True
        else:
            fenced = node_record(NodeRecord(node_id, 1, NodeState.FENCED))
            members.replay_leader(fenced.key, fenced.value)
    assert leadership.offline_partitions() == offline
    leaders = [leadership.leader_of(TOPIC.name, number).broker_id for number in range(TOPIC.partitions)]
    assert leaders.count(NO_BROKER) == offline
