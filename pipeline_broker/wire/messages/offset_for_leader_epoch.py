"""OffsetForLeaderEpoch: where the records of a leader epoch end."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, int64, string


@attrs.define
class OffsetForLeaderEpochRequest:
    """Request of API key 23: versions 2-4, flexible 4+."""

    SCHEMA: ClassVar[Schema] = Schema(key=23, versions="2-4", flexible="4+")

    @attrs.define
    class OffsetForLeaderTopic:
        """One element of `topics`."""

        topic: str = string("0+")
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = array("OffsetForLeaderPartition", "0+")

    @attrs.define
    class OffsetForLeaderPartition:
        """One element of `partitions`."""

        partition: int = int32("0+")
        current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
        leader_epoch: int = int32("0+")

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = array("OffsetForLeaderTopic", "0+")


@attrs.define
class OffsetForLeaderEpochResponse:
    """Response of API key 23: versions 2-4, flexible 4+."""

    SCHEMA: ClassVar[Schema] = Schema(key=23, versions="2-4", flexible="4+")

    @attrs.define
    class OffsetForLeaderTopicResult:
        """One element of `topics`."""

        topic: str = string("0+")
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = array("EpochEndOffset", "0+")

    @attrs.define
    class EpochEndOffset:
        """One element of `partitions`."""

        error_code: int = int16("0+")
        partition: int = int32("0+")
        leader_epoch: int = int32("1+", default=-1, ignorable=True)
        end_offset: int = int64("0+", default=-1)

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = array("OffsetForLeaderTopicResult", "0+")
