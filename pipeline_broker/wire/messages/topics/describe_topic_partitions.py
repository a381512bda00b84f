"""DescribeTopicPartitions: describe topics and partitions, page by page."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import INT32_MIN, array, boolean, int16, int32, optional_struct, string, uuid


@attrs.frozen
class DescribeTopicPartitionsCursor:
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


@attrs.define
class DescribeTopicPartitionsRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    Cursor = DescribeTopicPartitionsCursor

    @attrs.define
    class TopicRequest:
        name: str = string("0+")

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = array("TopicRequest", "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: DescribeTopicPartitionsCursor | None = optional_struct(DescribeTopicPartitionsCursor, "0+")


@attrs.define
class DescribeTopicPartitionsResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    Cursor = DescribeTopicPartitionsCursor

    @attrs.define
    class DescribeTopicPartitionsResponseTopic:
        error_code: int = int16("0+")
        name: str | None = string("0+", nullable="0+")
        topic_id: bytes = uuid("0+", ignorable=True)
        is_internal: bool = boolean("0+", ignorable=True)
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = array(
            "DescribeTopicPartitionsResponsePartition", "0+"
        )
        topic_authorized_operations: int = int32("0+", default=INT32_MIN)

    @attrs.define
    class DescribeTopicPartitionsResponsePartition:
        error_code: int = int16("0+")
        partition_index: int = int32("0+")
        leader_id: int = int32("0+")
        leader_epoch: int = int32("0+", default=-1, ignorable=True)
        replica_nodes: list[int] = array("int32", "0+")
        isr_nodes: list[int] = array("int32", "0+")
        eligible_leader_replicas: list[int] | None = array("int32", "0+", nullable="0+", default=None)
        last_known_elr: list[int] | None = array("int32", "0+", nullable="0+", default=None)
        offline_replicas: list[int] = array("int32", "0+", ignorable=True)

    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = array(
        "DescribeTopicPartitionsResponseTopic", "0+"
    )
    next_cursor: DescribeTopicPartitionsCursor | None = optional_struct(DescribeTopicPartitionsCursor, "0+")
