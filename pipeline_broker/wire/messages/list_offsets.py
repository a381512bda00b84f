"""ListOffsets: offsets by time stamp, and the special times."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int16, int32, int64, string


@attrs.define
class ListOffsetsRequest:
    """Request of API key 2: versions 1-11, flexible 6+."""

    SCHEMA: ClassVar[Schema] = Schema(key=2, versions="1-11", flexible="6+")

    @attrs.define
    class ListOffsetsTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = array("ListOffsetsPartition", "0+")

    @attrs.define
    class ListOffsetsPartition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
        timestamp: int = int64("0+")

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = array("ListOffsetsTopic", "0+")
    timeout_ms: int = int32("10+", ignorable=True)


@attrs.define
class ListOffsetsResponse:
    """Response of API key 2: versions 1-11, flexible 6+."""

    SCHEMA: ClassVar[Schema] = Schema(key=2, versions="1-11", flexible="6+")

    @attrs.define
    class ListOffsetsTopicResponse:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = array("ListOffsetsPartitionResponse", "0+")

    @attrs.define
    class ListOffsetsPartitionResponse:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        timestamp: int = int64("1+", default=-1)
        offset: int = int64("1+", default=-1)
        leader_epoch: int = int32("4+", default=-1)

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = array("ListOffsetsTopicResponse", "0+")
