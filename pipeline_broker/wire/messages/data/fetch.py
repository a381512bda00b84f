"""Fetch: read record batches."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import (
    INT32_MAX,
    INT64_MAX,
    array,
    int8,
    int16,
    int32,
    int64,
    record_set,
    string,
    struct,
    uuid,
)


@attrs.frozen
class FetchReplicaState:
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@attrs.define
class FetchRequest:
    SCHEMA = schema_of(ApiKey.FETCH)
    ReplicaState = FetchReplicaState

    @attrs.define
    class FetchTopic:
        topic: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partitions: list[FetchRequest.FetchPartition] = array("FetchPartition", "0+")

    @attrs.define
    class FetchPartition:
        partition: int = int32("0+")
        current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
        fetch_offset: int = int64("0+")
        last_fetched_epoch: int = int32("12+", default=-1)
        log_start_offset: int = int64("5+", default=-1, ignorable=True)
        partition_max_bytes: int = int32("0+")
        replica_directory_id: bytes = uuid("17+", tag=0, ignorable=True)
        high_watermark: int = int64("18+", default=INT64_MAX, tag=1, ignorable=True)

    @attrs.define
    class ForgottenTopic:
        topic: str = string("7-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partitions: list[int] = array("int32", "7+")

    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: FetchReplicaState = struct(FetchReplicaState, "15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=INT32_MAX, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchRequest.FetchTopic] = array("FetchTopic", "0+")
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = array("ForgottenTopic", "7+")
    rack_id: str = string("11+", ignorable=True)


@attrs.frozen
class FetchEpochEndOffset:
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@attrs.frozen
class FetchLeaderIdAndEpoch:
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


@attrs.frozen
class FetchSnapshotId:
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


@attrs.define
class FetchResponse:
    SCHEMA = schema_of(ApiKey.FETCH)
    EpochEndOffset = FetchEpochEndOffset
    LeaderIdAndEpoch = FetchLeaderIdAndEpoch
    SnapshotId = FetchSnapshotId

    @attrs.define
    class FetchableTopicResponse:
        topic: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partitions: list[FetchResponse.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        high_watermark: int = int64("0+")
        last_stable_offset: int = int64("4+", default=-1, ignorable=True)
        log_start_offset: int = int64("5+", default=-1, ignorable=True)
        diverging_epoch: FetchEpochEndOffset = struct(FetchEpochEndOffset, "12+", tag=0)
        current_leader: FetchLeaderIdAndEpoch = struct(FetchLeaderIdAndEpoch, "12+", tag=1)
        snapshot_id: FetchSnapshotId = struct(FetchSnapshotId, "12+", tag=2)
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = array(
            "AbortedTransaction", "4+", nullable="4+", ignorable=True
        )
        preferred_read_replica: int = int32("11+", default=-1)
        records: Buffer | Sequence[Buffer] | None = record_set("0+", nullable="0+")

    @attrs.define
    class AbortedTransaction:
        producer_id: int = int64("4+")
        first_offset: int = int64("4+")

    @attrs.define
    class NodeEndpoint:
        node_id: int = int32("16+")
        host: str = string("16+")
        port: int = int32("16+")
        rack: str | None = string("16+", nullable="16+", default=None)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchResponse.FetchableTopicResponse] = array("FetchableTopicResponse", "0+")
    node_endpoints: list[FetchResponse.NodeEndpoint] = array("NodeEndpoint", "16+", tag=0)
