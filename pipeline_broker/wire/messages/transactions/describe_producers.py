"""DescribeProducers: describe the active producers of partitions and their open transactions."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string


@attrs.define
class DescribeProducersRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_PRODUCERS)

    @attrs.define
    class TopicRequest:
        name: str = string("0+")
        partition_indexes: list[int] = array("int32", "0+")

    topics: list[DescribeProducersRequest.TopicRequest] = array("TopicRequest", "0+")


@attrs.define
class DescribeProducersResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_PRODUCERS)

    @attrs.define
    class ProducerState:
        producer_id: int = int64("0+")
        producer_epoch: int = int32("0+")
        last_sequence: int = int32("0+", default=-1)
        last_timestamp: int = int64("0+", default=-1)
        coordinator_epoch: int = int32("0+")
        current_txn_start_offset: int = int64("0+", default=-1)

    @attrs.define
    class PartitionResponse:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = array("ProducerState", "0+")

    @attrs.define
    class TopicResponse:
        name: str = string("0+")
        partitions: list[DescribeProducersResponse.PartitionResponse] = array("PartitionResponse", "0+")

    throttle_time_ms: int = int32("0+")
    topics: list[DescribeProducersResponse.TopicResponse] = array("TopicResponse", "0+")
