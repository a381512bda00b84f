"""OffsetDelete: forget what a group has committed for some partitions."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string


@attrs.define
class OffsetDeleteRequest:
    """Request of API key 47: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=47, versions="0", flexible="none")

    @attrs.define
    class OffsetDeleteRequestPartition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")

    @attrs.define
    class OffsetDeleteRequestTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = array("OffsetDeleteRequestPartition", "0+")

    group_id: str = string("0+")
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = array("OffsetDeleteRequestTopic", "0+")


@attrs.define
class OffsetDeleteResponse:
    """Response of API key 47: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=47, versions="0", flexible="none")

    @attrs.define
    class OffsetDeleteResponsePartition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    @attrs.define
    class OffsetDeleteResponseTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = array(
            "OffsetDeleteResponsePartition", "0+"
        )

    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = array("OffsetDeleteResponseTopic", "0+")
