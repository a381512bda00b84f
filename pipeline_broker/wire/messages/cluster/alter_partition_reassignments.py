"""AlterPartitionReassignments: move partitions to other brokers."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, string


@attrs.define
class AlterPartitionReassignmentsRequest:
    SCHEMA = schema_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)

    @attrs.define
    class ReassignableTopic:
        name: str = string("0+")
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = array(
            "ReassignablePartition", "0+"
        )

    @attrs.define
    class ReassignablePartition:
        partition_index: int = int32("0+")
        replicas: list[int] | None = array("int32", "0+", nullable="0+", default=None)

    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = array("ReassignableTopic", "0+")


@attrs.define
class AlterPartitionReassignmentsResponse:
    SCHEMA = schema_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)

    @attrs.define
    class ReassignableTopicResponse:
        name: str = string("0+")
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = array(
            "ReassignablePartitionResponse", "0+"
        )

    @attrs.define
    class ReassignablePartitionResponse:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = array(
        "ReassignableTopicResponse", "0+"
    )
