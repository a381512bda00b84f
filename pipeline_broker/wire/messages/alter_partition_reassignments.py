"""AlterPartitionReassignments: move partitions to other brokers."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int16, int32, string


@attrs.define
class AlterPartitionReassignmentsRequest:
    """Request of API key 45: versions 0-1, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=45, versions="0-1", flexible="0+")

    @attrs.define
    class ReassignableTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = array(
            "ReassignablePartition", "0+"
        )

    @attrs.define
    class ReassignablePartition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        replicas: list[int] | None = array("int32", "0+", nullable="0+", default=None)

    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = array("ReassignableTopic", "0+")


@attrs.define
class AlterPartitionReassignmentsResponse:
    """Response of API key 45: versions 0-1, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=45, versions="0-1", flexible="0+")

    @attrs.define
    class ReassignableTopicResponse:
        """One element of `responses`."""

        name: str = string("0+")
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = array(
            "ReassignablePartitionResponse", "0+"
        )

    @attrs.define
    class ReassignablePartitionResponse:
        """One element of `partitions`."""

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
