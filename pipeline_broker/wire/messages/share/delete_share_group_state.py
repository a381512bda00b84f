"""DeleteShareGroupState: delete the state of share partitions."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string, uuid


@attrs.define
class DeleteShareGroupStateRequest:
    SCHEMA = schema_of(ApiKey.DELETE_SHARE_GROUP_STATE)

    @attrs.define
    class DeleteStateData:
        topic_id: bytes = uuid("0+")
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition: int = int32("0+")

    group_id: str = string("0+")
    topics: list[DeleteShareGroupStateRequest.DeleteStateData] = array("DeleteStateData", "0+")


@attrs.define
class DeleteShareGroupStateResponse:
    SCHEMA = schema_of(ApiKey.DELETE_SHARE_GROUP_STATE)

    @attrs.define
    class DeleteStateResult:
        topic_id: bytes = uuid("0+")
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        partition: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    results: list[DeleteShareGroupStateResponse.DeleteStateResult] = array("DeleteStateResult", "0+")
