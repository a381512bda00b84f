"""DescribeProducers: who writes to a partition, and which transactions are open there."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, int64, string


@attrs.define
class DescribeProducersRequest:
    """Request of API key 61: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=61, versions="0", flexible="0+")

    @attrs.define
    class TopicRequest:
        """One element of `topics`."""

        name: str = string("0+")
        partition_indexes: list[int] = array("int32", "0+")

    topics: list[DescribeProducersRequest.TopicRequest] = array("TopicRequest", "0+")


@attrs.define
class DescribeProducersResponse:
    """Response of API key 61: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=61, versions="0", flexible="0+")

    @attrs.define
    class ProducerState:
        """One element of `active_producers`."""

        producer_id: int = int64("0+")
        producer_epoch: int = int32("0+")
        last_sequence: int = int32("0+", default=-1)
        last_timestamp: int = int64("0+", default=-1)
        coordinator_epoch: int = int32("0+")
        current_txn_start_offset: int = int64("0+", default=-1)

    @attrs.define
    class PartitionResponse:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = array("ProducerState", "0+")

    @attrs.define
    class TopicResponse:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[DescribeProducersResponse.PartitionResponse] = array("PartitionResponse", "0+")

    throttle_time_ms: int = int32("0+")
    topics: list[DescribeProducersResponse.TopicResponse] = array("TopicResponse", "0+")
