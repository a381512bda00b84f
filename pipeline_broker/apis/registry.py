"""Which APIs are served, in which versions, and which file handles them.

Rules of this room: it is data. ApiVersions is answered from it and a handler's file is imported on the first request
for it, so that a broker starts without loading what nobody asks for. The versions themselves are the protocol's
(`wire.registry`); a row says only where this broker differs from serving and advertising all of them.
"""

from __future__ import annotations

import attrs

from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.primitives import ELEMENTS_MAX
from pipeline_broker.wire.registry import API_KEYS, ApiKey

__all__ = ["SERVED", "Served"]


@attrs.frozen
class Served:
    """One API that is served.

    Attributes:
        key: its number.
        module: name of its file in this package.
        advertised_min: lowest version in ApiVersions, where it is not the lowest that is served.
        unstable_max: the highest version is a draft that is neither advertised nor served.
        writes: an answer without error means that something was written to the journal; refused while that cannot be.
        refused_with: the error that it is refused with then.
        elements_max: of a request; fewer for an API that decides about all of them in one turn. More are refused
            with POLICY_VIOLATION.
    """

    key: ApiKey
    module: str
    advertised_min: int | None = None
    unstable_max: bool = False
    writes: bool = False
    refused_with: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR
    elements_max: int = ELEMENTS_MAX

    @property
    def name(self) -> str:
        """Kafka's name of the API."""
        return API_KEYS[self.key].name

    @property
    def versions(self) -> range:
        """The versions that are served."""
        declared = API_KEYS[self.key].versions
        return declared[:-1] if self.unstable_max else declared

    @property
    def advertised(self) -> tuple[int, int]:
        """Lowest and highest version in ApiVersions."""
        lowest = self.versions[0] if self.advertised_min is None else self.advertised_min
        return lowest, self.versions[-1]


DECIDED_AT_ONCE_MAX = 10_000
"""Elements of a request about which a coordinator decides in one turn, because they are one change of its state."""

SHARE_STATES_MAX = 1_000
"""Partitions of a request about the state of share groups, which brokers send to each other: each is one record."""
SCRAM_USERS_MAX = 2_000
"""Users whose passwords a request sets: each takes some hashes."""

_UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""What every client of a transaction coordinator waits for and tries again after."""

SERVED: dict[int, Served] = {
    served.key: served
    for served in (
        # librdkafka before 2.0 takes a missing version 0 for a broker without Produce (KAFKA-18659), so Kafka
        # advertises versions that it rejects.
        Served(ApiKey.PRODUCE, "produce", advertised_min=0, writes=True),
        Served(ApiKey.FETCH, "fetch"),
        Served(ApiKey.LIST_OFFSETS, "list_offsets"),
        Served(ApiKey.OFFSET_FOR_LEADER_EPOCH, "offset_for_leader_epoch"),
        Served(ApiKey.DELETE_RECORDS, "delete_records", writes=True),
        Served(ApiKey.METADATA, "metadata"),
        Served(ApiKey.API_VERSIONS, "api_versions"),
        Served(ApiKey.INIT_PRODUCER_ID, "init_producer_id", unstable_max=True, writes=True),
        Served(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            "add_partitions_to_txn",
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            refused_with=_UNAVAILABLE,
        ),
        Served(ApiKey.ADD_OFFSETS_TO_TXN, "add_offsets_to_txn", writes=True, refused_with=_UNAVAILABLE),
        Served(ApiKey.END_TXN, "end_txn", writes=True, refused_with=_UNAVAILABLE),
        Served(
            ApiKey.TXN_OFFSET_COMMIT,
            "txn_offset_commit",
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            refused_with=_UNAVAILABLE,
        ),
        Served(ApiKey.DESCRIBE_TRANSACTIONS, "describe_transactions"),
        Served(ApiKey.LIST_TRANSACTIONS, "list_transactions"),
        Served(ApiKey.FIND_COORDINATOR, "find_coordinator", elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.JOIN_GROUP, "join_group", elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.SYNC_GROUP, "sync_group", elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.HEARTBEAT, "heartbeat"),
        Served(ApiKey.LEAVE_GROUP, "leave_group", elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.OFFSET_COMMIT, "offset_commit", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.OFFSET_FETCH, "offset_fetch"),
        Served(ApiKey.LIST_GROUPS, "list_groups"),
        Served(ApiKey.DESCRIBE_GROUPS, "describe_groups"),
        Served(ApiKey.DELETE_GROUPS, "delete_groups", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.SHARE_GROUP_HEARTBEAT, "share_group_heartbeat", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.SHARE_GROUP_DESCRIBE, "share_group_describe"),
        Served(ApiKey.SHARE_FETCH, "share_fetch", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.SHARE_ACKNOWLEDGE, "share_acknowledge", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            "initialize_share_group_state",
            elements_max=SHARE_STATES_MAX,
            writes=True,
        ),
        Served(ApiKey.READ_SHARE_GROUP_STATE, "read_share_group_state", elements_max=SHARE_STATES_MAX, writes=True),
        Served(ApiKey.WRITE_SHARE_GROUP_STATE, "write_share_group_state", elements_max=SHARE_STATES_MAX, writes=True),
        Served(ApiKey.DELETE_SHARE_GROUP_STATE, "delete_share_group_state", elements_max=SHARE_STATES_MAX, writes=True),
        Served(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "read_share_group_state_summary", elements_max=SHARE_STATES_MAX),
        Served(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "describe_share_group_offsets", elements_max=DECIDED_AT_ONCE_MAX),
        Served(
            ApiKey.ALTER_SHARE_GROUP_OFFSETS, "alter_share_group_offsets", elements_max=DECIDED_AT_ONCE_MAX, writes=True
        ),
        Served(
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            "delete_share_group_offsets",
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
        ),
        Served(ApiKey.OFFSET_DELETE, "offset_delete", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.CONSUMER_GROUP_HEARTBEAT, "consumer_group_heartbeat", elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.CONSUMER_GROUP_DESCRIBE, "consumer_group_describe"),
        Served(ApiKey.CREATE_TOPICS, "create_topics", writes=True),
        Served(ApiKey.DELETE_TOPICS, "delete_topics", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.CREATE_PARTITIONS, "create_partitions", writes=True),
        Served(ApiKey.DESCRIBE_ACLS, "describe_acls"),
        Served(ApiKey.CREATE_ACLS, "create_acls", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.DELETE_ACLS, "delete_acls", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.DESCRIBE_CONFIGS, "describe_configs"),
        Served(ApiKey.INCREMENTAL_ALTER_CONFIGS, "incremental_alter_configs", writes=True),
        Served(ApiKey.ALTER_CONFIGS, "alter_configs", writes=True),
        Served(ApiKey.LIST_CONFIG_RESOURCES, "list_config_resources"),
        Served(ApiKey.DESCRIBE_CLIENT_QUOTAS, "describe_client_quotas"),
        Served(ApiKey.ALTER_CLIENT_QUOTAS, "alter_client_quotas", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.DESCRIBE_CLUSTER, "describe_cluster"),
        Served(ApiKey.DESCRIBE_LOG_DIRS, "describe_log_dirs"),
        Served(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "describe_topic_partitions"),
        Served(ApiKey.DESCRIBE_PRODUCERS, "describe_producers"),
        Served(ApiKey.WRITE_TXN_MARKERS, "write_txn_markers", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.SASL_HANDSHAKE, "sasl_handshake"),
        Served(ApiKey.SASL_AUTHENTICATE, "sasl_authenticate"),
        Served(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "describe_user_scram_credentials"),
        Served(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            "alter_user_scram_credentials",
            elements_max=SCRAM_USERS_MAX,
            writes=True,
        ),
        Served(ApiKey.UPDATE_FEATURES, "update_features", elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "get_telemetry_subscriptions"),
        Served(ApiKey.PUSH_TELEMETRY, "push_telemetry"),
        Served(
            ApiKey.CREATE_DELEGATION_TOKEN, "create_delegation_token", elements_max=DECIDED_AT_ONCE_MAX, writes=True
        ),
        Served(ApiKey.RENEW_DELEGATION_TOKEN, "renew_delegation_token", writes=True),
        Served(ApiKey.EXPIRE_DELEGATION_TOKEN, "expire_delegation_token", writes=True),
        Served(ApiKey.DESCRIBE_DELEGATION_TOKEN, "describe_delegation_token", elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.ALTER_REPLICA_LOG_DIRS, "alter_replica_log_dirs", elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.ELECT_LEADERS, "elect_leaders"),
        Served(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "alter_partition_reassignments"),
        Served(ApiKey.LIST_PARTITION_REASSIGNMENTS, "list_partition_reassignments"),
        Served(ApiKey.DESCRIBE_QUORUM, "describe_quorum", elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.UNREGISTER_BROKER, "unregister_broker"),
        Served(ApiKey.ADD_RAFT_VOTER, "add_raft_voter"),
        Served(ApiKey.REMOVE_RAFT_VOTER, "remove_raft_voter"),
    )
}
