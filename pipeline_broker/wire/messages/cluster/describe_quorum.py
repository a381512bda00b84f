"""DescribeQuorum: describe the voters of the metadata partition."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string, uint16, uuid


@attrs.define
class DescribeQuorumRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_QUORUM)

    @attrs.define
    class TopicData:
        topic_name: str = string("0+")
        partitions: list[DescribeQuorumRequest.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition_index: int = int32("0+")

    topics: list[DescribeQuorumRequest.TopicData] = array("TopicData", "0+")


@attrs.define
class DescribeQuorumResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_QUORUM)

    @attrs.define
    class TopicData:
        topic_name: str = string("0+")
        partitions: list[DescribeQuorumResponse.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("2+", nullable="2+", ignorable=True)
        leader_id: int = int32("0+")
        leader_epoch: int = int32("0+")
        high_watermark: int = int64("0+")
        current_voters: list[DescribeQuorumResponse.ReplicaState] = array("ReplicaState", "0+")
        observers: list[DescribeQuorumResponse.ReplicaState] = array("ReplicaState", "0+")

    @attrs.define
    class Node:
        node_id: int = int32("2+")
        listeners: list[DescribeQuorumResponse.Listener] = array("Listener", "2+")

    @attrs.define
    class Listener:
        name: str = string("2+")
        host: str = string("2+")
        port: int = uint16("2+")

    @attrs.define
    class ReplicaState:
        replica_id: int = int32("0+")
        replica_directory_id: bytes = uuid("2+")
        log_end_offset: int = int64("0+")
        last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
        last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)

    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[DescribeQuorumResponse.TopicData] = array("TopicData", "0+")
    nodes: list[DescribeQuorumResponse.Node] = array("Node", "2+")
