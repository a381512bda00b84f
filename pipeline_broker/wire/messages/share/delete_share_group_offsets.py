"""DeleteShareGroupOffsets: delete the offsets of a share group in topics."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string, uuid


@attrs.define
class DeleteShareGroupOffsetsRequest:
    SCHEMA = schema_of(ApiKey.DELETE_SHARE_GROUP_OFFSETS)

    @attrs.define
    class Topic:
        topic_name: str = string("0+")

    group_id: str = string("0+")
    topics: list[DeleteShareGroupOffsetsRequest.Topic] = array("Topic", "0+")


@attrs.define
class DeleteShareGroupOffsetsResponse:
    SCHEMA = schema_of(ApiKey.DELETE_SHARE_GROUP_OFFSETS)

    @attrs.define
    class Topic:
        topic_name: str = string("0+")
        topic_id: bytes = uuid("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponse.Topic] = array("Topic", "0+")
