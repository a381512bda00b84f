"""ReadShareGroupStateSummary: the state of share partitions without their batches."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, int64, string, uuid


@attrs.define
class ReadShareGroupStateSummaryRequest:
    """Request of API key 87: versions 0-1, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=87, versions="0-1", flexible="0+")

    @attrs.define
    class ReadStateSummaryData:
        """One element of `topics`."""

        topic_id: bytes = uuid("0+")
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        """One element of `partitions`."""

        partition: int = int32("0+")
        leader_epoch: int = int32("0+")

    group_id: str = string("0+")
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = array("ReadStateSummaryData", "0+")


@attrs.define
class ReadShareGroupStateSummaryResponse:
    """Response of API key 87: versions 0-1, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=87, versions="0-1", flexible="0+")

    @attrs.define
    class ReadStateSummaryResult:
        """One element of `results`."""

        topic_id: bytes = uuid("0+")
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        """One element of `partitions`."""

        partition: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        state_epoch: int = int32("0+")
        leader_epoch: int = int32("0+")
        start_offset: int = int64("0+")
        delivery_complete_count: int = int32("1+", default=-1, ignorable=True)

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = array("ReadStateSummaryResult", "0+")
