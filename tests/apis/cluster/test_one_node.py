"""APIs that need several brokers answer as Apache Kafka does on one node."""

import pytest

from pipeline_broker.wire.messages.cluster.add_raft_voter import AddRaftVoterRequest
from pipeline_broker.wire.messages.cluster.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from pipeline_broker.wire.messages.cluster.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.cluster.describe_quorum import DescribeQuorumRequest
from pipeline_broker.wire.messages.cluster.elect_leaders import ElectLeadersRequest
from pipeline_broker.wire.messages.cluster.list_partition_reassignments import ListPartitionReassignmentsRequest
from pipeline_broker.wire.messages.cluster.remove_raft_voter import RemoveRaftVoterRequest
from pipeline_broker.wire.messages.cluster.unregister_broker import UnregisterBrokerRequest
from pipeline_broker.wire.messages.cluster.unregister_controller import UnregisterControllerRequest
from pipeline_broker.wire.messages.cluster.update_features import UpdateFeaturesRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.desk import DIRECTORY, Desk

DIRECTORY_ID = b"some directory's"


@pytest.fixture
def desk():
    desk = Desk()
    desk.ask(CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 2, 1)], 1000), 5)
    return desk


def elected(desk, wanted, kind=0, timeout_ms=1000, version=2):
    topics = None if wanted is None else [ElectLeadersRequest.TopicPartitions(*each) for each in wanted]
    answer = desk.ask(ElectLeadersRequest(kind, topics, timeout_ms), version)
    results = [
        (each.topic, [(part.partition_id, part.error_code) for part in each.partition_result])
        for each in answer.replica_election_results
    ]
    return answer.error_code, results


def test_no_leader_needs_to_be_elected(desk):
    wanted = [("t", [0, 1, 2, -1]), ("missing", [0])]
    results = [("t", [(0, 84), (1, 84), (2, 3), (-1, 3)]), ("missing", [(0, 3)])]
    assert elected(desk, wanted) == elected(desk, wanted, kind=1) == (0, results)
    assert elected(desk, None) == (0, [("t", [])])
    assert elected(desk, [("t", [0])], timeout_ms=0) == (7, [("t", [(0, 7)])])
    assert elected(desk, [("t", [0])], kind=2) == (42, [("t", [(0, 42)])])
    assert elected(desk, [], kind=2) == (0, [])


def test_a_partition_can_only_be_where_it_is(desk):
    request = AlterPartitionReassignmentsRequest
    wanted = [(0, [1]), (0, None), (0, []), (0, [1, 1]), (0, [2]), (2, [1])]
    topics = [request.ReassignableTopic("t", [request.ReassignablePartition(*each) for each in wanted])]
    topics.append(request.ReassignableTopic("missing", [request.ReassignablePartition(0, [1])]))
    answer = desk.ask(request(1000, False, topics), 1)
    assert [[part.error_code for part in topic.partitions] for topic in answer.responses] == [
        [0, 85, 39, 39, 39, 3],
        [3],
    ]
    assert not answer.allow_replication_factor_change
    late = desk.ask(request(0, True, topics[1:]), 1)
    assert (late.error_code, late.responses[0].partitions[0].error_code) == (7, 7)
    assert desk.ask(request(0, False, []), 1).allow_replication_factor_change, "as Kafka"


def test_nothing_is_being_reassigned(desk):
    answer = desk.ask(ListPartitionReassignmentsRequest(1000, None), 0)
    assert (answer.error_code, answer.topics) == (0, [])


def test_a_replica_is_in_the_one_directory_or_nowhere(desk):
    request = AlterReplicaLogDirsRequest
    long_name = "x" * 213
    here = [request.AlterReplicaLogDirTopic(*each) for each in [("t", [0, 5]), ("missing", [0]), (long_name, [0, 10])]]
    answer = desk.ask(request([request.AlterReplicaLogDir(str(DIRECTORY), here)]), 2)
    found = {topic.topic_name: [part.error_code for part in topic.partitions] for topic in answer.results}
    assert found == {"t": [0, 3], "missing": [3], long_name: [3, 17]}
    there = [request.AlterReplicaLogDirTopic("t", [0]), request.AlterReplicaLogDirTopic("u", [])]
    (result,) = desk.ask(request([request.AlterReplicaLogDir("/elsewhere", there)]), 2).results
    assert [(part.partition_index, part.error_code) for part in result.partitions] == [(0, 57)]


def quorum(desk, *topics, version=2):
    request = DescribeQuorumRequest
    wanted = [request.TopicData(name, [request.PartitionData(index) for index in indexes]) for name, indexes in topics]
    return desk.ask(request(wanted), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_this_broker(desk, version):
    answer = quorum(desk, ("__cluster_metadata", [0]), version=version)
    ((partition,),) = [topic.partitions for topic in answer.topics]
    assert (partition.error_code, partition.leader_id) == (0, 1)
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, partition.high_watermark)
    assert partition.high_watermark > 0
    if version == 2:
        ((listener,),) = [node.listeners for node in answer.nodes]
        assert (listener.host, listener.port) == ("broker.test", 9092)
        again = quorum(desk.restart(), ("__cluster_metadata", [0])).topics[0].partitions[0].current_voters[0]
        assert any(voter.replica_directory_id)
        assert voter.replica_directory_id == again.replica_directory_id


@pytest.mark.parametrize(
    "topics", [[("t", [0])], [("__cluster_metadata", [1])], [("__cluster_metadata", [0]), ("t", [0])]]
)
def test_no_other_partition_has_a_quorum(desk, topics):
    answer = quorum(desk, *topics)
    assert {part.error_code for topic in answer.topics for part in topic.partitions} == {3}


def test_no_broker_can_be_unregistered(desk):
    assert desk.ask(UnregisterBrokerRequest(5), 0).error_code == 102
    assert desk.ask(UnregisterBrokerRequest(1), 0).error_code == 42


def test_no_controller_can_be_unregistered(desk):
    assert desk.ask(UnregisterControllerRequest(5), 0).error_code == 136
    assert desk.ask(UnregisterControllerRequest(1), 0).error_code == 42


@pytest.mark.parametrize(
    ("cluster_id", "voter", "directory_id", "listeners", "code"),
    [
        ("another", 2, DIRECTORY_ID, ["CONTROLLER"], 104),
        (None, -3, DIRECTORY_ID, ["CONTROLLER"], 42),
        (None, 2, bytes(16), ["CONTROLLER"], 42),
        (None, 2, DIRECTORY_ID, [], 42),
        (None, 2, DIRECTORY_ID, ["OTHER"], 42),
        (None, 1, DIRECTORY_ID, ["CONTROLLER"], 126),
        (None, 2, DIRECTORY_ID, ["CONTROLLER"], 7),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_no_voter_can_be_added(desk, cluster_id, voter, directory_id, listeners, code, version):
    endpoints = [AddRaftVoterRequest.Listener(name, "h", 1) for name in listeners]
    assert desk.ask(AddRaftVoterRequest(cluster_id, 500, voter, directory_id, endpoints), version).error_code == code


@pytest.mark.parametrize(
    ("cluster_id", "voter", "directory_id", "code"),
    [
        ("another", 1, DIRECTORY_ID, 104),
        (None, 1, bytes(16), 42),
        (None, -1, DIRECTORY_ID, 42),
        (None, 1, DIRECTORY_ID, 127),
    ],
)
def test_no_voter_can_be_removed(desk, cluster_id, voter, directory_id, code):
    assert desk.ask(RemoveRaftVoterRequest(cluster_id, voter, directory_id), 0).error_code == code


def features(desk, version=4):
    answer = desk.ask(ApiVersionsRequest("x", "1"), version)
    return (
        {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
        {each.name: each.max_version_level for each in answer.finalized_features},
        answer.finalized_features_epoch,
    )


def test_features_are_advertised(desk):
    supported, finalized, epoch = features(desk)
    assert supported["metadata.version"] == (7, 33)
    assert (finalized["metadata.version"], finalized["kraft.version"], epoch) == (33, 1, 0)
    old, same, _ = features(desk, version=3)
    assert same == finalized
    assert old == {name: levels for name, levels in supported.items() if levels[0] > 0}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_finalized_level_survives_a_restart(desk, version):
    update = UpdateFeaturesRequest.FeatureUpdateKey("eligible.leader.replicas.version", 0, upgrade_type=2)
    desk.ask(UpdateFeaturesRequest(1000, [update]), 2)
    again = UpdateFeaturesRequest.FeatureUpdateKey("eligible.leader.replicas.version", 1)
    answer = desk.ask(UpdateFeaturesRequest(1000, [again]), version)
    assert (answer.error_code, [each.feature for each in answer.results]) == (0, [again.feature] if version < 2 else [])
    _, finalized, epoch = features(desk.restart())
    assert (finalized[again.feature], epoch) == (1, 2)


def test_several_levels_are_finalized_together_or_not_at_all(desk):
    update = UpdateFeaturesRequest.FeatureUpdateKey
    wanted = [update("eligible.leader.replicas.version", 0, upgrade_type=2), update("metadata.version", 99)]
    answer = desk.ask(UpdateFeaturesRequest(1000, wanted), 2)
    assert answer.error_code == 95
    assert answer.error_message.startswith("The update failed for all features since the following feature had an")
    assert features(desk)[2] == 0
