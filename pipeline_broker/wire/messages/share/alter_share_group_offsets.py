"""AlterShareGroupOffsets: change the start offsets of a share group."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string, uuid


@attrs.define
class AlterShareGroupOffsetsRequest:
    SCHEMA = schema_of(ApiKey.ALTER_SHARE_GROUP_OFFSETS)

    @attrs.define
    class Topic:
        topic_name: str = string("0+")
        partitions: list[AlterShareGroupOffsetsRequest.Partition] = array("Partition", "0+")

    @attrs.define
    class Partition:
        partition_index: int = int32("0+")
        start_offset: int = int64("0+")

    group_id: str = string("0+")
    topics: list[AlterShareGroupOffsetsRequest.Topic] = array("Topic", "0+")


@attrs.define
class AlterShareGroupOffsetsResponse:
    SCHEMA = schema_of(ApiKey.ALTER_SHARE_GROUP_OFFSETS)

    @attrs.define
    class Topic:
        topic_name: str = string("0+")
        topic_id: bytes = uuid("0+")
        partitions: list[AlterShareGroupOffsetsResponse.Partition] = array("Partition", "0+")

    @attrs.define
    class Partition:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponse.Topic] = array("Topic", "0+")
