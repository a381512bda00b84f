"""OffsetCommit: store committed offsets of a group."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string, uuid


@attrs.define
class OffsetCommitRequest:
    SCHEMA = schema_of(ApiKey.OFFSET_COMMIT)

    @attrs.define
    class OffsetCommitRequestTopic:
        name: str = string("0-9", ignorable=True)
        topic_id: bytes = uuid("10+", ignorable=True)
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = array("OffsetCommitRequestPartition", "0+")

    @attrs.define
    class OffsetCommitRequestPartition:
        partition_index: int = int32("0+")
        committed_offset: int = int64("0+")
        committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
        committed_metadata: str | None = string("0+", nullable="0+")

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = array("OffsetCommitRequestTopic", "0+")


@attrs.define
class OffsetCommitResponse:
    SCHEMA = schema_of(ApiKey.OFFSET_COMMIT)

    @attrs.define
    class OffsetCommitResponseTopic:
        name: str = string("0-9", ignorable=True)
        topic_id: bytes = uuid("10+", ignorable=True)
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = array(
            "OffsetCommitResponsePartition", "0+"
        )

    @attrs.define
    class OffsetCommitResponsePartition:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = array("OffsetCommitResponseTopic", "0+")
