"""ListPartitionReassignments: which partitions are on their way to other brokers."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string


@attrs.define
class ListPartitionReassignmentsRequest:
    """Request of API key 46: versions 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=46, versions="0", flexible="0+")

    @attrs.define
    class ListPartitionReassignmentsTopics:
        """One element of `topics`."""

        name: str = string("0+")
        partition_indexes: list[int] = array("int32", "0+")

    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = array(
        "ListPartitionReassignmentsTopics", "0+", nullable="0+"
    )


@attrs.define
class ListPartitionReassignmentsResponse:
    """Response of API key 46: versions 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=46, versions="0", flexible="0+")

    @attrs.define
    class OngoingTopicReassignment:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = array(
            "OngoingPartitionReassignment", "0+"
        )

    @attrs.define
    class OngoingPartitionReassignment:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        replicas: list[int] = array("int32", "0+")
        adding_replicas: list[int] = array("int32", "0+")
        removing_replicas: list[int] = array("int32", "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = array("OngoingTopicReassignment", "0+")
