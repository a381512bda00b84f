"""AlterShareGroupOffsets: let a share group begin elsewhere."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, int64, string, uuid


@attrs.define
class AlterShareGroupOffsetsRequest:
    """Request of API key 91: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=91, versions="0", flexible="0+")

    @attrs.define
    class Topic:
        """One element of `topics`."""

        topic_name: str = string("0+")
        partitions: list[AlterShareGroupOffsetsRequest.Partition] = array("Partition", "0+")

    @attrs.define
    class Partition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        start_offset: int = int64("0+")

    group_id: str = string("0+")
    topics: list[AlterShareGroupOffsetsRequest.Topic] = array("Topic", "0+")


@attrs.define
class AlterShareGroupOffsetsResponse:
    """Response of API key 91: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=91, versions="0", flexible="0+")

    @attrs.define
    class Topic:
        """One element of `responses`."""

        topic_name: str = string("0+")
        topic_id: bytes = uuid("0+")
        partitions: list[AlterShareGroupOffsetsResponse.Partition] = array("Partition", "0+")

    @attrs.define
    class Partition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponse.Topic] = array("Topic", "0+")
