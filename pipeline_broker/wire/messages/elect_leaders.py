"""ElectLeaders: have partitions led by another replica."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int16, int32, string


@attrs.define
class ElectLeadersRequest:
    """Request of API key 43: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=43, versions="0-2", flexible="2+")

    @attrs.define
    class TopicPartitions:
        """One element of `topic_partitions`."""

        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    election_type: int = int8("1+")
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = array("TopicPartitions", "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


@attrs.define
class ElectLeadersResponse:
    """Response of API key 43: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=43, versions="0-2", flexible="2+")

    @attrs.define
    class ReplicaElectionResult:
        """One element of `replica_election_results`."""

        topic: str = string("0+")
        partition_result: list[ElectLeadersResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        """One element of `partition_result`."""

        partition_id: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = array("ReplicaElectionResult", "0+")
