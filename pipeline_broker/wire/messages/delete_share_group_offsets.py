"""DeleteShareGroupOffsets: forget where a share group reads topics."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string, uuid


@attrs.define
class DeleteShareGroupOffsetsRequest:
    """Request of API key 92: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=92, versions="0", flexible="0+")

    @attrs.define
    class Topic:
        """One element of `topics`."""

        topic_name: str = string("0+")

    group_id: str = string("0+")
    topics: list[DeleteShareGroupOffsetsRequest.Topic] = array("Topic", "0+")


@attrs.define
class DeleteShareGroupOffsetsResponse:
    """Response of API key 92: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=92, versions="0", flexible="0+")

    @attrs.define
    class Topic:
        """One element of `responses`."""

        topic_name: str = string("0+")
        topic_id: bytes = uuid("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponse.Topic] = array("Topic", "0+")
