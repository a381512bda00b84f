"""ElectLeaders: elect other replicas as leaders of partitions."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, string


@attrs.define
class ElectLeadersRequest:
    SCHEMA = schema_of(ApiKey.ELECT_LEADERS)

    @attrs.define
    class TopicPartitions:
        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    election_type: int = int8("1+")
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = array("TopicPartitions", "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


@attrs.define
class ElectLeadersResponse:
    SCHEMA = schema_of(ApiKey.ELECT_LEADERS)

    @attrs.define
    class ReplicaElectionResult:
        topic: str = string("0+")
        partition_result: list[ElectLeadersResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        partition_id: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = array("ReplicaElectionResult", "0+")
