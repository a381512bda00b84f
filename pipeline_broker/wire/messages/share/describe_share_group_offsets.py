"""DescribeShareGroupOffsets: describe the start offsets of share groups."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string, uuid


@attrs.define
class DescribeShareGroupOffsetsRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)

    @attrs.define
    class Group:
        group_id: str = string("0+")
        topics: list[DescribeShareGroupOffsetsRequest.Topic] | None = array("Topic", "0+", nullable="0+")

    @attrs.define
    class Topic:
        topic_name: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    groups: list[DescribeShareGroupOffsetsRequest.Group] = array("Group", "0+")


@attrs.define
class DescribeShareGroupOffsetsResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)

    @attrs.define
    class Group:
        group_id: str = string("0+")
        topics: list[DescribeShareGroupOffsetsResponse.Topic] = array("Topic", "0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    @attrs.define
    class Topic:
        topic_name: str = string("0+")
        topic_id: bytes = uuid("0+")
        partitions: list[DescribeShareGroupOffsetsResponse.Partition] = array("Partition", "0+")

    @attrs.define
    class Partition:
        partition_index: int = int32("0+")
        start_offset: int = int64("0+")
        leader_epoch: int = int32("0+")
        lag: int = int64("1+", default=-1, ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    groups: list[DescribeShareGroupOffsetsResponse.Group] = array("Group", "0+")
