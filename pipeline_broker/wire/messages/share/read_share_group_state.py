"""ReadShareGroupState: read the state of share partitions."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, int64, string, uuid


@attrs.define
class ReadShareGroupStateRequest:
    SCHEMA = schema_of(ApiKey.READ_SHARE_GROUP_STATE)

    @attrs.define
    class ReadStateData:
        topic_id: bytes = uuid("0+")
        partitions: list[ReadShareGroupStateRequest.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition: int = int32("0+")
        leader_epoch: int = int32("0+")

    group_id: str = string("0+")
    topics: list[ReadShareGroupStateRequest.ReadStateData] = array("ReadStateData", "0+")


@attrs.define
class ReadShareGroupStateResponse:
    SCHEMA = schema_of(ApiKey.READ_SHARE_GROUP_STATE)

    @attrs.define
    class ReadStateResult:
        topic_id: bytes = uuid("0+")
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        partition: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        state_epoch: int = int32("0+")
        start_offset: int = int64("0+")
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = array("StateBatch", "0+")

    @attrs.define
    class StateBatch:
        first_offset: int = int64("0+")
        last_offset: int = int64("0+")
        delivery_state: int = int8("0+")
        delivery_count: int = int16("0+")

    results: list[ReadShareGroupStateResponse.ReadStateResult] = array("ReadStateResult", "0+")
