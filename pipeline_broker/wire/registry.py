"""All API keys of the protocol, with their names, versions, flexible versions and folders.

The tables include APIs that this broker does not serve, because reading a request header depends on them.
`apis/registry.py` lists the served ones.

Counterpart in Kafka: `ApiVersionManager`, `ApiKeys`.
"""

from __future__ import annotations

from enum import IntEnum
from importlib import import_module
from typing import Any, NamedTuple

from pipeline_broker.wire.schema import VERSION_MAX, Schema


class ApiKey(IntEnum):
    """The number of each API. 4 to 7 belong to former Kafka releases and have no versions left."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


NEVER = VERSION_MAX + 1


class Api(NamedTuple):
    """One API of the protocol.

    Attributes:
        name: Kafka's name.
        versions: all valid versions.
        flexible_from: the first flexible version; NEVER if none is flexible.
        subject: the folder of its messages and its handler; None if its messages are not declared.
    """

    key: ApiKey
    name: str
    versions: range
    flexible_from: int
    subject: str | None = None

    @property
    def module(self) -> str:
        """The module of its messages in `wire.messages`, and of its handler in `apis`, for an API with a subject."""
        return f"{self.subject}.{self.key.name.lower()}"


API_KEYS = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, "Produce", range(3, 14), 9, "data"),
        Api(ApiKey.FETCH, "Fetch", range(4, 19), 12, "data"),
        Api(ApiKey.LIST_OFFSETS, "ListOffsets", range(1, 12), 6, "data"),
        Api(ApiKey.METADATA, "Metadata", range(14), 9, "topics"),
        Api(ApiKey.LEADER_AND_ISR, "LeaderAndIsr", range(0), NEVER),
        Api(ApiKey.STOP_REPLICA, "StopReplica", range(0), NEVER),
        Api(ApiKey.UPDATE_METADATA, "UpdateMetadata", range(0), NEVER),
        Api(ApiKey.CONTROLLED_SHUTDOWN, "ControlledShutdown", range(0), NEVER),
        Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", range(2, 11), 8, "groups"),
        Api(ApiKey.OFFSET_FETCH, "OffsetFetch", range(1, 11), 6, "groups"),
        Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", range(7), 3, "groups"),
        Api(ApiKey.JOIN_GROUP, "JoinGroup", range(10), 6, "groups"),
        Api(ApiKey.HEARTBEAT, "Heartbeat", range(5), 4, "groups"),
        Api(ApiKey.LEAVE_GROUP, "LeaveGroup", range(6), 4, "groups"),
        Api(ApiKey.SYNC_GROUP, "SyncGroup", range(6), 4, "groups"),
        Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", range(7), 5, "groups"),
        Api(ApiKey.LIST_GROUPS, "ListGroups", range(6), 3, "groups"),
        Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", range(2), NEVER, "security"),
        Api(ApiKey.API_VERSIONS, "ApiVersions", range(6), 3, "cluster"),
        Api(ApiKey.CREATE_TOPICS, "CreateTopics", range(2, 8), 5, "topics"),
        Api(ApiKey.DELETE_TOPICS, "DeleteTopics", range(1, 7), 4, "topics"),
        Api(ApiKey.DELETE_RECORDS, "DeleteRecords", range(3), 2, "data"),
        Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", range(7), 2, "transactions"),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", range(2, 5), 4, "data"),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", range(6), 3, "transactions"),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", range(5), 3, "transactions"),
        Api(ApiKey.END_TXN, "EndTxn", range(6), 3, "transactions"),
        Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", range(1, 3), 1, "transactions"),
        Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", range(7), 3, "transactions"),
        Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", range(1, 4), 2, "security"),
        Api(ApiKey.CREATE_ACLS, "CreateAcls", range(1, 4), 2, "security"),
        Api(ApiKey.DELETE_ACLS, "DeleteAcls", range(1, 4), 2, "security"),
        Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", range(1, 5), 4, "configs"),
        Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", range(3), 2, "configs"),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", range(1, 3), 2, "cluster"),
        Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", range(1, 6), 2, "cluster"),
        Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", range(3), 2, "security"),
        Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", range(4), 2, "topics"),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", range(1, 4), 2, "security"),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", range(1, 3), 2, "security"),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", range(1, 3), 2, "security"),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", range(1, 4), 2, "security"),
        Api(ApiKey.DELETE_GROUPS, "DeleteGroups", range(4), 2, "groups"),
        Api(ApiKey.ELECT_LEADERS, "ElectLeaders", range(3), 2, "cluster"),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", range(2), 1, "configs"),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", range(2), 0, "cluster"),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", range(1), 0, "cluster"),
        Api(ApiKey.OFFSET_DELETE, "OffsetDelete", range(1), NEVER, "groups"),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", range(2), 1, "configs"),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", range(2), 1, "configs"),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", range(1), 0, "security"),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", range(1), 0, "security"),
        Api(ApiKey.VOTE, "Vote", range(3), 0),
        Api(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", range(2), 1),
        Api(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", range(2), 1),
        Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", range(3), 0, "cluster"),
        Api(ApiKey.ALTER_PARTITION, "AlterPartition", range(2, 4), 0),
        Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", range(3), 0, "cluster"),
        Api(ApiKey.ENVELOPE, "Envelope", range(1), 0),
        Api(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", range(2), 0),
        Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", range(3), 0, "cluster"),
        Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", range(1), 0, "transactions"),
        Api(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", range(5), 0),
        Api(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", range(3), 0),
        Api(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", range(1), 0, "cluster"),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", range(1), 0, "transactions"),
        Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", range(3), 0, "transactions"),
        Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", range(1), 0),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", range(2), 0, "groups"),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", range(2), 0, "groups"),
        Api(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", range(1), 0),
        Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", range(1), 0, "cluster"),
        Api(ApiKey.PUSH_TELEMETRY, "PushTelemetry", range(1), 0, "cluster"),
        Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", range(1), 0),
        Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", range(2), 0, "configs"),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", range(1), 0, "topics"),
        Api(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", range(1, 2), 0, "share"),
        Api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", range(1, 2), 0, "share"),
        Api(ApiKey.SHARE_FETCH, "ShareFetch", range(1, 3), 0, "share"),
        Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", range(1, 3), 0, "share"),
        Api(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", range(2), 0, "cluster"),
        Api(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", range(1), 0, "cluster"),
        Api(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", range(1), 0),
        Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", range(1), 0, "share"),
        Api(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", range(1), 0, "share"),
        Api(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", range(2), 0, "share"),
        Api(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", range(1), 0, "share"),
        Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", range(2), 0, "share"),
        Api(ApiKey.STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", range(2), 0, "groups"),
        Api(ApiKey.STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", range(2), 0, "groups"),
        Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", range(2), 0, "share"),
        Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", range(1), 0, "share"),
        Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", range(1), 0, "share"),
        Api(
            ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
            "StreamsGroupTopologyDescriptionUpdate",
            range(1),
            0,
            "groups",
        ),
        Api(ApiKey.UNREGISTER_CONTROLLER, "UnregisterController", range(1), 0, "cluster"),
    )
}
"""APIs by their keys."""

FLEXIBLE_FROM: dict[int, int] = {int(key): api.flexible_from for key, api in API_KEYS.items()}
"""The first flexible version of each API, by key; enough to read headers."""


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether a version has compact lengths and tag sections. Raises KeyError for an unknown key."""
    return version >= FLEXIBLE_FROM[api_key]


def api_name(key: int | str) -> str:
    """Return Kafka's name of an API; an unknown key is returned as text."""
    return API_KEYS[ApiKey(key)].name if key in API_KEYS else str(key)


def schema_of(api_key: ApiKey) -> Schema:
    api = API_KEYS[api_key]
    flexible = "none" if api.flexible_from == NEVER else f"{api.flexible_from}+"
    return Schema(int(api_key), f"{api.versions[0]}-{api.versions[-1]}", flexible)


def message_classes(api_key: int) -> tuple[type[Any], type[Any]]:
    """Import and return the request and response classes of an API.

    Raises:
        KeyError: the key is unknown, or the classes are not declared.
    """
    api = API_KEYS[ApiKey(api_key)] if api_key in FLEXIBLE_FROM else None
    if api is None or api.subject is None:
        raise KeyError(api_key)
    module = import_module(f"pipeline_broker.wire.messages.{api.module}")
    return getattr(module, f"{api.name}Request"), getattr(module, f"{api.name}Response")
