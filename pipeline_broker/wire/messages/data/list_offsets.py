"""ListOffsets: find offsets by timestamp, or by special timestamps such as earliest and latest."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, int64, string


@attrs.define
class ListOffsetsRequest:
    SCHEMA = schema_of(ApiKey.LIST_OFFSETS)

    @attrs.define
    class ListOffsetsTopic:
        name: str = string("0+")
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = array("ListOffsetsPartition", "0+")

    @attrs.define
    class ListOffsetsPartition:
        partition_index: int = int32("0+")
        current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
        timestamp: int = int64("0+")

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = array("ListOffsetsTopic", "0+")
    timeout_ms: int = int32("10+", ignorable=True)


@attrs.define
class ListOffsetsResponse:
    SCHEMA = schema_of(ApiKey.LIST_OFFSETS)

    @attrs.define
    class ListOffsetsTopicResponse:
        name: str = string("0+")
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = array("ListOffsetsPartitionResponse", "0+")

    @attrs.define
    class ListOffsetsPartitionResponse:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        timestamp: int = int64("1+", default=-1)
        offset: int = int64("1+", default=-1)
        leader_epoch: int = int32("4+", default=-1)

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = array("ListOffsetsTopicResponse", "0+")
