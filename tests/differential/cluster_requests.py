"""Requests about the cluster, its features, its quorum, telemetry and tokens, drawn by Hypothesis.

What would change the cluster for others is only validated: a feature that is gone takes its APIs with it, a broker that
is unregistered is no broker.
"""

from __future__ import annotations

import hashlib

from hypothesis import strategies as st

from pipeline_broker.wire.messages.cluster.add_raft_voter import AddRaftVoterRequest
from pipeline_broker.wire.messages.cluster.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from pipeline_broker.wire.messages.cluster.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from pipeline_broker.wire.messages.cluster.describe_log_dirs import DescribeLogDirsRequest
from pipeline_broker.wire.messages.cluster.describe_quorum import DescribeQuorumRequest
from pipeline_broker.wire.messages.cluster.elect_leaders import ElectLeadersRequest
from pipeline_broker.wire.messages.cluster.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from pipeline_broker.wire.messages.cluster.list_partition_reassignments import ListPartitionReassignmentsRequest
from pipeline_broker.wire.messages.cluster.push_telemetry import PushTelemetryRequest
from pipeline_broker.wire.messages.cluster.remove_raft_voter import RemoveRaftVoterRequest
from pipeline_broker.wire.messages.cluster.unregister_broker import UnregisterBrokerRequest
from pipeline_broker.wire.messages.cluster.unregister_controller import UnregisterControllerRequest
from pipeline_broker.wire.messages.cluster.update_features import UpdateFeaturesRequest
from pipeline_broker.wire.messages.configs.alter_configs import AlterConfigsRequest
from pipeline_broker.wire.messages.configs.list_config_resources import ListConfigResourcesRequest
from pipeline_broker.wire.messages.security.create_delegation_token import CreateDelegationTokenRequest
from pipeline_broker.wire.messages.security.describe_delegation_token import DescribeDelegationTokenRequest
from pipeline_broker.wire.messages.security.expire_delegation_token import ExpireDelegationTokenRequest
from pipeline_broker.wire.messages.security.renew_delegation_token import RenewDelegationTokenRequest
from pipeline_broker.wire.primitives import UUID_ZERO
from pipeline_broker.wire.registry import ApiKey
from tests.differential.admin_requests import CLIENT_METRICS, GROUP, TOPIC, other_resources, topic_settings
from tests.differential.data_requests import BAD_NAMES, Ask, ask, partitions, topics
from tests.differential.oracle import Side

BROKER, BROKER_LOGGER = 4, 8
NOBODY = b"nobody's id here"
INSTANCES = [hashlib.md5(bytes([number])).digest() for number in range(200)]
timeouts = st.sampled_from([20_000, 20_000, 20_000, 0, -1])
cluster_ids = st.sampled_from([None, None, "another cluster"])


@st.composite
def alter_configs(draw: st.DrawFn, version: int) -> Ask:
    """No resource twice, which Kafka never answers, and no defaults of all brokers, which Kafka must keep."""
    topic_resources = st.sampled_from(["made0", "made1", "missing", "bad name", ""]).map(lambda name: (TOPIC, name))
    resources = topic_resources | st.sampled_from([(99, "one"), (BROKER_LOGGER, "1"), (BROKER, "9"), (BROKER, "x")])
    altered = AlterConfigsRequest
    wanted = []
    for kind, name in draw(st.lists(resources, max_size=2, unique=True)):
        settings = draw(st.lists(topic_settings, max_size=2))
        wanted.append(altered.AlterConfigsResource(kind, name, [altered.AlterableConfig(*pair) for pair in settings]))
    if draw(st.booleans()):
        kind, name, pairs = draw(other_resources())
        wanted.append(altered.AlterConfigsResource(kind, name, [altered.AlterableConfig(*pair) for pair in pairs]))
    return ask(version, AlterConfigsRequest(wanted, draw(st.booleans())), changes_settings=True)


@st.composite
def list_config_resources(draw: st.DrawFn, version: int) -> Ask:
    kinds = st.sampled_from([TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, 0, 99])
    return ask(version, ListConfigResourcesRequest(draw(st.lists(kinds, max_size=2)) if version >= 1 else []))


@st.composite
def alter_replica_log_dirs(draw: st.DrawFn, version: int) -> Ask:
    """Each partition once: of several directories Kafka takes the one that its hash map has last."""
    names = topics | st.sampled_from([*BAD_NAMES, "x" * 213, "x" * 214])
    parts = st.lists(partitions, max_size=3, unique=True)
    wanted = draw(st.dictionaries(names, parts, max_size=3))
    is_here = draw(st.booleans())

    def build(side: Side) -> AlterReplicaLogDirsRequest:
        directories = side.ask(DescribeLogDirsRequest([]), 4)["results"]  # none for who may not know
        asked = AlterReplicaLogDirsRequest
        listed = [asked.AlterReplicaLogDirTopic(name, indexes) for name, indexes in wanted.items()]
        path = directories[0]["log_dir"] if is_here and directories else "/nowhere"
        return asked([asked.AlterReplicaLogDir(path, listed)] if wanted else [])

    return Ask(version, build, text=f"move {wanted} {'here' if is_here else 'away'}")


@st.composite
def elect_leaders(draw: st.DrawFn, version: int) -> Ask:
    one = st.builds(ElectLeadersRequest.TopicPartitions, topics, st.lists(partitions, max_size=3))
    wanted = draw(st.none() | st.lists(one, max_size=3))
    kind = draw(st.sampled_from([0, 0, 1, 2])) if version >= 1 else 0
    return ask(version, ElectLeadersRequest(kind, wanted, draw(timeouts)))


@st.composite
def alter_partition_reassignments(draw: st.DrawFn, version: int) -> Ask:
    asked = AlterPartitionReassignmentsRequest
    replicas = st.sampled_from([None, [1], [1], [], [1, 1], [2], [1, 2]])
    parts = st.lists(st.builds(asked.ReassignablePartition, partitions, replicas), max_size=3)
    request = asked(draw(timeouts), True, draw(st.lists(st.builds(asked.ReassignableTopic, topics, parts), max_size=3)))
    if version >= 1:
        request.allow_replication_factor_change = draw(st.booleans())
    return ask(version, request)


@st.composite
def list_partition_reassignments(draw: st.DrawFn, version: int) -> Ask:
    asked = ListPartitionReassignmentsRequest
    one = st.builds(asked.ListPartitionReassignmentsTopics, topics, st.lists(partitions, max_size=3))
    return ask(version, asked(draw(timeouts), draw(st.none() | st.lists(one, max_size=3))))


@st.composite
def describe_quorum(draw: st.DrawFn, version: int) -> Ask:
    asked = DescribeQuorumRequest
    parts = st.lists(st.builds(asked.PartitionData, st.sampled_from([0, 0, 0, 1, -1])), max_size=2)
    right = st.just([asked.TopicData("__cluster_metadata", [asked.PartitionData(0)])])
    any_topic = st.sampled_from(["__cluster_metadata", "one"])
    return ask(version, asked(draw(right | st.lists(st.builds(asked.TopicData, any_topic, parts), max_size=2))))


@st.composite
def update_features(draw: st.DrawFn, version: int) -> Ask:
    """Nothing that would change something, but in version 0, which has no validation, what is so already."""
    names = ["metadata.version", "kraft.version", "eligible.leader.replicas.version", "no.such.feature"]
    levels = st.sampled_from([0, 1, 1, 2, 7, 29, 30, 31, -1, 99])
    updates = []
    for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
        update = UpdateFeaturesRequest.FeatureUpdateKey(name, draw(levels))
        if version == 0:
            update.allow_downgrade = draw(st.booleans())
        else:
            update.upgrade_type = draw(st.sampled_from([1, 1, 2, 3, 0, 4]))
        updates.append(update)
    return ask(version, UpdateFeaturesRequest(20_000, updates, validate_only=version >= 1))


@st.composite
def unregister_broker(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, UnregisterBrokerRequest(draw(st.sampled_from([2, 99, -1, 2**31 - 1]))))


@st.composite
def unregister_controller(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, UnregisterControllerRequest(draw(st.sampled_from([1, 2, 99, -1, 2**31 - 1]))))


@st.composite
def add_raft_voter(draw: st.DrawFn, version: int) -> Ask:
    """Refused by what it says, or because it is a voter: Kafka asks a candidate that it could take."""
    asked = AddRaftVoterRequest
    listeners = st.sampled_from([[], ["OTHER"], ["CONTROLLER"]])
    names = draw(listeners)
    voter = 1 if names == ["CONTROLLER"] else draw(st.sampled_from([1, 2, -3]))
    request = asked(
        draw(cluster_ids),
        500,
        voter,
        draw(st.sampled_from([NOBODY, NOBODY, UUID_ZERO])),
        [asked.Listener(name, "127.0.0.1", 5) for name in names],
    )
    if version >= 1:
        request.ack_when_committed = draw(st.booleans())
    return ask(version, request)


@st.composite
def remove_raft_voter(draw: st.DrawFn, version: int) -> Ask:
    voter, directory = draw(st.sampled_from([1, 2, -1])), draw(st.sampled_from([NOBODY, NOBODY, UUID_ZERO]))
    return ask(version, RemoveRaftVoterRequest(draw(cluster_ids), voter, directory))


@st.composite
def get_telemetry_subscriptions(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, GetTelemetrySubscriptionsRequest(draw(st.sampled_from([UUID_ZERO, *INSTANCES]))))


@st.composite
def push_telemetry(draw: st.DrawFn, version: int) -> Ask:
    """By clients that have not asked, or in time; who has just asked does so in test_telemetry."""
    request = PushTelemetryRequest(
        draw(st.sampled_from([UUID_ZERO, bytes(15) + b"\x01", *INSTANCES])),
        draw(st.sampled_from([0, 1, -5])),
        draw(st.booleans()),
        draw(st.sampled_from([0, 1, 4, 5, -1])),
        b"x",
    )
    return ask(version, request)


@st.composite
def create_delegation_token(draw: st.DrawFn, version: int) -> Ask:
    """On a listener without proof nobody gets a token; who gets one is tested in tests/apis only."""
    asked = CreateDelegationTokenRequest
    renewers = st.builds(asked.CreatableRenewers, st.sampled_from(["User", "Group"]), st.sampled_from(["ann", ""]))
    request = asked(renewers=draw(st.lists(renewers, max_size=2)), max_lifetime_ms=draw(st.sampled_from([-1, 0, 5])))
    if version >= 3:
        owners = [(None, None), ("User", None), ("User", ""), ("User", "ann")]  # over a name alone Kafka stumbles
        request.owner_principal_type, request.owner_principal_name = draw(st.sampled_from(owners))
    return ask(version, request)


@st.composite
def renew_delegation_token(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, RenewDelegationTokenRequest(draw(st.binary(max_size=3)), draw(st.sampled_from([-1, 0, 5]))))


@st.composite
def expire_delegation_token(draw: st.DrawFn, version: int) -> Ask:
    return ask(version, ExpireDelegationTokenRequest(draw(st.binary(max_size=3)), draw(st.sampled_from([-1, 0, 5]))))


@st.composite
def describe_delegation_token(draw: st.DrawFn, version: int) -> Ask:
    asked = DescribeDelegationTokenRequest
    owners = st.builds(asked.DescribeDelegationTokenOwner, st.just("User"), st.sampled_from(["ann", ""]))
    return ask(version, asked(draw(st.none() | st.lists(owners, max_size=2))))


CLUSTER_REQUESTS = {
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
    ApiKey.UPDATE_FEATURES: update_features,
    ApiKey.UNREGISTER_BROKER: unregister_broker,
    ApiKey.UNREGISTER_CONTROLLER: unregister_controller,
    ApiKey.ADD_RAFT_VOTER: add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: get_telemetry_subscriptions,
    ApiKey.PUSH_TELEMETRY: push_telemetry,
    ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: expire_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe_delegation_token,
}
