"""OffsetDelete: delete committed offsets of a group."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string


@attrs.define
class OffsetDeleteRequest:
    SCHEMA = schema_of(ApiKey.OFFSET_DELETE)

    @attrs.define
    class OffsetDeleteRequestPartition:
        partition_index: int = int32("0+")

    @attrs.define
    class OffsetDeleteRequestTopic:
        name: str = string("0+")
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = array("OffsetDeleteRequestPartition", "0+")

    group_id: str = string("0+")
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = array("OffsetDeleteRequestTopic", "0+")


@attrs.define
class OffsetDeleteResponse:
    SCHEMA = schema_of(ApiKey.OFFSET_DELETE)

    @attrs.define
    class OffsetDeleteResponsePartition:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    @attrs.define
    class OffsetDeleteResponseTopic:
        name: str = string("0+")
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = array(
            "OffsetDeleteResponsePartition", "0+"
        )

    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = array("OffsetDeleteResponseTopic", "0+")
