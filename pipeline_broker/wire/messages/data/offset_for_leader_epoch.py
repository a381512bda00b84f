"""OffsetForLeaderEpoch: find the end offset of a leader epoch."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string


@attrs.define
class OffsetForLeaderEpochRequest:
    SCHEMA = schema_of(ApiKey.OFFSET_FOR_LEADER_EPOCH)

    @attrs.define
    class OffsetForLeaderTopic:
        topic: str = string("0+")
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = array("OffsetForLeaderPartition", "0+")

    @attrs.define
    class OffsetForLeaderPartition:
        partition: int = int32("0+")
        current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
        leader_epoch: int = int32("0+")

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = array("OffsetForLeaderTopic", "0+")


@attrs.define
class OffsetForLeaderEpochResponse:
    SCHEMA = schema_of(ApiKey.OFFSET_FOR_LEADER_EPOCH)

    @attrs.define
    class OffsetForLeaderTopicResult:
        topic: str = string("0+")
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = array("EpochEndOffset", "0+")

    @attrs.define
    class EpochEndOffset:
        error_code: int = int16("0+")
        partition: int = int32("0+")
        leader_epoch: int = int32("1+", default=-1, ignorable=True)
        end_offset: int = int64("0+", default=-1)

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = array("OffsetForLeaderTopicResult", "0+")
