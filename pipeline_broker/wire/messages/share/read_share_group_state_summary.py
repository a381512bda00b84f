"""ReadShareGroupStateSummary: read the state of share partitions without their state batches."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string, uuid


@attrs.define
class ReadShareGroupStateSummaryRequest:
    SCHEMA = schema_of(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)

    @attrs.define
    class ReadStateSummaryData:
        topic_id: bytes = uuid("0+")
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition: int = int32("0+")
        leader_epoch: int = int32("0+")

    group_id: str = string("0+")
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = array("ReadStateSummaryData", "0+")


@attrs.define
class ReadShareGroupStateSummaryResponse:
    SCHEMA = schema_of(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)

    @attrs.define
    class ReadStateSummaryResult:
        topic_id: bytes = uuid("0+")
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        partition: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        state_epoch: int = int32("0+")
        leader_epoch: int = int32("0+")
        start_offset: int = int64("0+")
        delivery_complete_count: int = int32("1+", default=-1, ignorable=True)

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = array("ReadStateSummaryResult", "0+")
