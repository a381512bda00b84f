"""DeleteRecords: delete the records before an offset."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string


@attrs.define
class DeleteRecordsRequest:
    SCHEMA = schema_of(ApiKey.DELETE_RECORDS)

    @attrs.define
    class DeleteRecordsTopic:
        name: str = string("0+")
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = array("DeleteRecordsPartition", "0+")

    @attrs.define
    class DeleteRecordsPartition:
        partition_index: int = int32("0+")
        offset: int = int64("0+")

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = array("DeleteRecordsTopic", "0+")
    timeout_ms: int = int32("0+")


@attrs.define
class DeleteRecordsResponse:
    SCHEMA = schema_of(ApiKey.DELETE_RECORDS)

    @attrs.define
    class DeleteRecordsTopicResult:
        name: str = string("0+")
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = array(
            "DeleteRecordsPartitionResult", "0+"
        )

    @attrs.define
    class DeleteRecordsPartitionResult:
        partition_index: int = int32("0+")
        low_watermark: int = int64("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = array("DeleteRecordsTopicResult", "0+")
