"""DeleteRecords: delete what stands in front of an offset."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, int64, string


@attrs.define
class DeleteRecordsRequest:
    """Request of API key 21: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=21, versions="0-2", flexible="2+")

    @attrs.define
    class DeleteRecordsTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = array("DeleteRecordsPartition", "0+")

    @attrs.define
    class DeleteRecordsPartition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        offset: int = int64("0+")

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = array("DeleteRecordsTopic", "0+")
    timeout_ms: int = int32("0+")


@attrs.define
class DeleteRecordsResponse:
    """Response of API key 21: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=21, versions="0-2", flexible="2+")

    @attrs.define
    class DeleteRecordsTopicResult:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = array(
            "DeleteRecordsPartitionResult", "0+"
        )

    @attrs.define
    class DeleteRecordsPartitionResult:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        low_watermark: int = int64("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = array("DeleteRecordsTopicResult", "0+")
