"""ListPartitionReassignments: list ongoing moves of partitions to other brokers."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string


@attrs.define
class ListPartitionReassignmentsRequest:
    SCHEMA = schema_of(ApiKey.LIST_PARTITION_REASSIGNMENTS)

    @attrs.define
    class ListPartitionReassignmentsTopics:
        name: str = string("0+")
        partition_indexes: list[int] = array("int32", "0+")

    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = array(
        "ListPartitionReassignmentsTopics", "0+", nullable="0+", default=None
    )


@attrs.define
class ListPartitionReassignmentsResponse:
    SCHEMA = schema_of(ApiKey.LIST_PARTITION_REASSIGNMENTS)

    @attrs.define
    class OngoingTopicReassignment:
        name: str = string("0+")
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = array(
            "OngoingPartitionReassignment", "0+"
        )

    @attrs.define
    class OngoingPartitionReassignment:
        partition_index: int = int32("0+")
        replicas: list[int] = array("int32", "0+")
        adding_replicas: list[int] = array("int32", "0+")
        removing_replicas: list[int] = array("int32", "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = array("OngoingTopicReassignment", "0+")
