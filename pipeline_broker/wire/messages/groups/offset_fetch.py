"""OffsetFetch: read committed offsets of groups."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, int64, string, uuid


@attrs.define
class OffsetFetchRequest:
    SCHEMA = schema_of(ApiKey.OFFSET_FETCH)

    @attrs.define
    class OffsetFetchRequestTopic:
        name: str = string("0-7")
        partition_indexes: list[int] = array("int32", "0-7")

    @attrs.define
    class OffsetFetchRequestGroup:
        group_id: str = string("8+")
        member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
        member_epoch: int = int32("9+", default=-1, ignorable=True)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = array(
            "OffsetFetchRequestTopics", "8+", nullable="8+"
        )

    @attrs.define
    class OffsetFetchRequestTopics:
        name: str = string("8-9", ignorable=True)
        topic_id: bytes = uuid("10+", ignorable=True)
        partition_indexes: list[int] = array("int32", "8+")

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = array(
        "OffsetFetchRequestTopic", "0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = array("OffsetFetchRequestGroup", "8+")
    require_stable: bool = boolean("7+")


@attrs.define
class OffsetFetchResponse:
    SCHEMA = schema_of(ApiKey.OFFSET_FETCH)

    @attrs.define
    class OffsetFetchResponseTopic:
        name: str = string("0-7")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = array(
            "OffsetFetchResponsePartition", "0-7"
        )

    @attrs.define
    class OffsetFetchResponsePartition:
        partition_index: int = int32("0-7")
        committed_offset: int = int64("0-7")
        committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
        metadata: str | None = string("0-7", nullable="0-7")
        error_code: int = int16("0-7")

    @attrs.define
    class OffsetFetchResponseGroup:
        group_id: str = string("8+")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = array("OffsetFetchResponseTopics", "8+")
        error_code: int = int16("8+")

    @attrs.define
    class OffsetFetchResponseTopics:
        name: str = string("8-9", ignorable=True)
        topic_id: bytes = uuid("10+", ignorable=True)
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = array(
            "OffsetFetchResponsePartitions", "8+"
        )

    @attrs.define
    class OffsetFetchResponsePartitions:
        partition_index: int = int32("8+")
        committed_offset: int = int64("8+")
        committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
        metadata: str | None = string("8+", nullable="8+")
        error_code: int = int16("8+")

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = array("OffsetFetchResponseTopic", "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = array("OffsetFetchResponseGroup", "8+")
