"""The registry of served APIs: their versions, limits and handlers.

It is data. ApiVersions is answered from it, and a handler's module is imported on the first request, so that startup
loads no unused handlers. The protocol's versions are in `wire.registry`; an entry here says only how this broker
differs from serving and advertising all of them.

Counterpart in Kafka: `ApiVersionManager`, `ApiKeys`.
"""

from __future__ import annotations

import enum

import attrs

from pipeline_broker.apis import needed
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.primitives import ELEMENTS_MAX
from pipeline_broker.wire.registry import API_KEYS, ApiKey

__all__ = ["SERVED", "Place", "Served"]


class Place(enum.Enum):
    """The brokers of a cluster that handle the requests of an API.

    ANY: the broker that receives the request. CONTROLLER: the controller, to which other brokers forward it. ALONE:
    only a broker without a cluster.
    """

    ANY = enum.auto()
    CONTROLLER = enum.auto()
    ALONE = enum.auto()


@attrs.frozen
class Served:
    """An API that this broker serves.

    Attributes:
        advertised_min: lowest version in ApiVersions, if it is not the lowest version served.
        unstable_max: the highest version is a draft, neither advertised nor served.
        writes: a response without an error means that the journal was written. While the journal cannot be written,
            requests are refused.
        refused_with: the error of requests that are refused because the journal cannot be written.
        elements_max: limit of array elements in a request, lower for an API that decides about all of them in one turn.
            Above a lower limit the answer is POLICY_VIOLATION; above ELEMENTS_MAX the connection is closed.
        needs: modules that are loaded with the handler, because its first request creates their objects.
        place: the brokers of a cluster that handle the request.
        feature: the feature that must have a level above 0; otherwise the answer is UNSUPPORTED_VERSION.
    """

    key: ApiKey
    advertised_min: int | None = None
    unstable_max: bool = False
    writes: bool = False
    refused_with: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR
    elements_max: int = ELEMENTS_MAX
    needs: tuple[needed.Need, ...] = ()
    place: Place = Place.ANY
    feature: str | None = None

    @property
    def name(self) -> str:
        return API_KEYS[self.key].name

    @property
    def module(self) -> str:
        return API_KEYS[self.key].module

    @property
    def versions(self) -> range:
        declared = API_KEYS[self.key].versions
        return declared[:-1] if self.unstable_max else declared

    @property
    def advertised(self) -> tuple[int, int]:
        lowest = self.versions[0] if self.advertised_min is None else self.advertised_min
        return lowest, self.versions[-1]


# Limit of elements that a coordinator decides about in one turn, because they are one change of its state.
DECIDED_AT_ONCE_MAX = 10_000
"""Elements that a coordinator decides in one turn; a request with more gets POLICY_VIOLATION."""

# Limit of partitions in the share state requests that brokers send to each other. Each partition is one record.
SHARE_STATES_MAX = 1_000
"""Partitions in a request between share coordinators; a request with more gets POLICY_VIOLATION."""
# Limit of users in a request that sets passwords. Each user takes several hashes.
SCRAM_USERS_MAX = 2_000
"""SCRAM users in a request; a request with more gets POLICY_VIOLATION."""

GROUPS = (needed.groups, needed.group_shards)
CLASSIC_GROUPS = (*GROUPS, needed.classic_groups)
CONSUMER_GROUPS = (*CLASSIC_GROUPS, needed.consumer_groups, needed.features)
SHARE_GROUPS = (*GROUPS, needed.share_groups, needed.share_partitions, needed.features)
STREAMS_GROUPS = (*CLASSIC_GROUPS, needed.streams_groups, needed.features)
TRANSACTIONS = (needed.transactions,)
QUOTAS = (needed.client_quotas, needed.quota_kinds)
SETTINGS = (needed.stored_settings,)
PASSWORDS = (needed.passwords,)

GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION = "group.version", "share.version", "streams.version"

# Clients of a transaction coordinator retry after this error.
_UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE

SERVED: dict[int, Served] = {
    served.key: served
    for served in (
        # librdkafka before 2.0 takes a missing version 0 for a broker without Produce (KAFKA-18659), so Kafka
        # advertises versions that it rejects.
        Served(ApiKey.PRODUCE, advertised_min=0, writes=True),
        Served(ApiKey.FETCH),
        Served(ApiKey.LIST_OFFSETS),
        Served(ApiKey.OFFSET_FOR_LEADER_EPOCH),
        Served(ApiKey.DELETE_RECORDS, writes=True),
        Served(ApiKey.METADATA),
        Served(ApiKey.API_VERSIONS, needs=(needed.features,)),
        Served(ApiKey.INIT_PRODUCER_ID, unstable_max=True, writes=True, needs=TRANSACTIONS),
        Served(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            refused_with=_UNAVAILABLE,
        ),
        Served(ApiKey.ADD_OFFSETS_TO_TXN, writes=True, refused_with=_UNAVAILABLE, needs=TRANSACTIONS),
        Served(ApiKey.END_TXN, writes=True, refused_with=_UNAVAILABLE, needs=TRANSACTIONS),
        Served(
            ApiKey.TXN_OFFSET_COMMIT,
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            refused_with=_UNAVAILABLE,
            needs=CLASSIC_GROUPS,
        ),
        Served(ApiKey.DESCRIBE_TRANSACTIONS, needs=TRANSACTIONS),
        Served(ApiKey.LIST_TRANSACTIONS, needs=TRANSACTIONS),
        Served(ApiKey.FIND_COORDINATOR, elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.JOIN_GROUP, elements_max=DECIDED_AT_ONCE_MAX, needs=CLASSIC_GROUPS),
        Served(ApiKey.SYNC_GROUP, elements_max=DECIDED_AT_ONCE_MAX, needs=CLASSIC_GROUPS),
        Served(ApiKey.HEARTBEAT, needs=CLASSIC_GROUPS),
        Served(ApiKey.LEAVE_GROUP, elements_max=DECIDED_AT_ONCE_MAX, needs=CLASSIC_GROUPS),
        Served(ApiKey.OFFSET_COMMIT, elements_max=DECIDED_AT_ONCE_MAX, writes=True, needs=CLASSIC_GROUPS),
        Served(ApiKey.OFFSET_FETCH, needs=GROUPS),
        Served(ApiKey.LIST_GROUPS, needs=GROUPS),
        Served(ApiKey.DESCRIBE_GROUPS, needs=CLASSIC_GROUPS),
        Served(ApiKey.DELETE_GROUPS, elements_max=DECIDED_AT_ONCE_MAX, writes=True, needs=GROUPS),
        Served(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            needs=SHARE_GROUPS,
            place=Place.ALONE,
            feature=SHARE_VERSION,
        ),
        Served(ApiKey.SHARE_GROUP_DESCRIBE, needs=SHARE_GROUPS, place=Place.ALONE, feature=SHARE_VERSION),
        Served(
            ApiKey.SHARE_FETCH,
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            needs=SHARE_GROUPS,
            place=Place.ALONE,
            feature=SHARE_VERSION,
        ),
        Served(
            ApiKey.SHARE_ACKNOWLEDGE,
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            needs=SHARE_GROUPS,
            place=Place.ALONE,
            feature=SHARE_VERSION,
        ),
        Served(
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            elements_max=SHARE_STATES_MAX,
            writes=True,
            place=Place.ALONE,
        ),
        Served(ApiKey.READ_SHARE_GROUP_STATE, elements_max=SHARE_STATES_MAX, writes=True, place=Place.ALONE),
        Served(ApiKey.WRITE_SHARE_GROUP_STATE, elements_max=SHARE_STATES_MAX, writes=True, place=Place.ALONE),
        Served(ApiKey.DELETE_SHARE_GROUP_STATE, elements_max=SHARE_STATES_MAX, writes=True, place=Place.ALONE),
        Served(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, elements_max=SHARE_STATES_MAX, place=Place.ALONE),
        Served(
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            elements_max=DECIDED_AT_ONCE_MAX,
            needs=SHARE_GROUPS,
            place=Place.ALONE,
            feature=SHARE_VERSION,
        ),
        Served(
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            needs=SHARE_GROUPS,
            place=Place.ALONE,
            feature=SHARE_VERSION,
        ),
        Served(
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            needs=SHARE_GROUPS,
            place=Place.ALONE,
            feature=SHARE_VERSION,
        ),
        Served(ApiKey.OFFSET_DELETE, elements_max=DECIDED_AT_ONCE_MAX, writes=True, needs=GROUPS),
        Served(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            elements_max=DECIDED_AT_ONCE_MAX,
            needs=CONSUMER_GROUPS,
            feature=GROUP_VERSION,
        ),
        Served(ApiKey.CONSUMER_GROUP_DESCRIBE, needs=CONSUMER_GROUPS, feature=GROUP_VERSION),
        Served(
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            elements_max=DECIDED_AT_ONCE_MAX,
            needs=STREAMS_GROUPS,
            feature=STREAMS_VERSION,
        ),
        Served(ApiKey.STREAMS_GROUP_DESCRIBE, needs=STREAMS_GROUPS, feature=STREAMS_VERSION),
        Served(
            ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
            elements_max=DECIDED_AT_ONCE_MAX,
            needs=(needed.features,),
            feature=STREAMS_VERSION,
        ),
        Served(ApiKey.CREATE_TOPICS, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.DELETE_TOPICS, elements_max=DECIDED_AT_ONCE_MAX, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.CREATE_PARTITIONS, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.DESCRIBE_ACLS),
        Served(ApiKey.CREATE_ACLS, elements_max=DECIDED_AT_ONCE_MAX, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.DELETE_ACLS, elements_max=DECIDED_AT_ONCE_MAX, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.DESCRIBE_CONFIGS),
        Served(ApiKey.INCREMENTAL_ALTER_CONFIGS, writes=True, needs=SETTINGS, place=Place.CONTROLLER),
        Served(ApiKey.ALTER_CONFIGS, writes=True, needs=SETTINGS, place=Place.CONTROLLER),
        Served(ApiKey.LIST_CONFIG_RESOURCES),
        Served(ApiKey.DESCRIBE_CLIENT_QUOTAS, needs=QUOTAS),
        Served(
            ApiKey.ALTER_CLIENT_QUOTAS,
            elements_max=DECIDED_AT_ONCE_MAX,
            writes=True,
            needs=QUOTAS,
            place=Place.CONTROLLER,
        ),
        Served(ApiKey.DESCRIBE_CLUSTER),
        Served(ApiKey.DESCRIBE_LOG_DIRS),
        Served(ApiKey.DESCRIBE_TOPIC_PARTITIONS),
        Served(ApiKey.DESCRIBE_PRODUCERS),
        Served(ApiKey.WRITE_TXN_MARKERS, elements_max=DECIDED_AT_ONCE_MAX, writes=True),
        Served(ApiKey.SASL_HANDSHAKE),
        Served(ApiKey.SASL_AUTHENTICATE),
        Served(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, needs=PASSWORDS),
        Served(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            elements_max=SCRAM_USERS_MAX,
            writes=True,
            needs=PASSWORDS,
            place=Place.CONTROLLER,
        ),
        Served(ApiKey.UPDATE_FEATURES, elements_max=DECIDED_AT_ONCE_MAX, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS),
        Served(ApiKey.PUSH_TELEMETRY),
        Served(ApiKey.CREATE_DELEGATION_TOKEN, elements_max=DECIDED_AT_ONCE_MAX, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.RENEW_DELEGATION_TOKEN, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.EXPIRE_DELEGATION_TOKEN, writes=True, place=Place.CONTROLLER),
        Served(ApiKey.DESCRIBE_DELEGATION_TOKEN, elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.ALTER_REPLICA_LOG_DIRS, elements_max=DECIDED_AT_ONCE_MAX),
        Served(ApiKey.ELECT_LEADERS, place=Place.CONTROLLER),
        Served(ApiKey.ALTER_PARTITION_REASSIGNMENTS, place=Place.CONTROLLER),
        Served(ApiKey.LIST_PARTITION_REASSIGNMENTS, place=Place.CONTROLLER),
        Served(ApiKey.DESCRIBE_QUORUM, elements_max=DECIDED_AT_ONCE_MAX, place=Place.CONTROLLER),
        Served(ApiKey.UNREGISTER_BROKER, place=Place.CONTROLLER),
        Served(ApiKey.UNREGISTER_CONTROLLER, place=Place.CONTROLLER),
        Served(ApiKey.ADD_RAFT_VOTER, place=Place.CONTROLLER),
        Served(ApiKey.REMOVE_RAFT_VOTER, place=Place.CONTROLLER),
    )
}
