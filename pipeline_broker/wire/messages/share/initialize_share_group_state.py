"""InitializeShareGroupState: initialize the state of share partitions."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string, uuid


@attrs.define
class InitializeShareGroupStateRequest:
    SCHEMA = schema_of(ApiKey.INITIALIZE_SHARE_GROUP_STATE)

    @attrs.define
    class InitializeStateData:
        topic_id: bytes = uuid("0+")
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition: int = int32("0+")
        state_epoch: int = int32("0+")
        start_offset: int = int64("0+")

    group_id: str = string("0+")
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = array("InitializeStateData", "0+")


@attrs.define
class InitializeShareGroupStateResponse:
    SCHEMA = schema_of(ApiKey.INITIALIZE_SHARE_GROUP_STATE)

    @attrs.define
    class InitializeStateResult:
        topic_id: bytes = uuid("0+")
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        partition: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = array("InitializeStateResult", "0+")
