"""InitializeShareGroupState: begin the state of share partitions."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, int64, string, uuid


@attrs.define
class InitializeShareGroupStateRequest:
    """Request of API key 83: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=83, versions="0", flexible="0+")

    @attrs.define
    class InitializeStateData:
        """One element of `topics`."""

        topic_id: bytes = uuid("0+")
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        """One element of `partitions`."""

        partition: int = int32("0+")
        state_epoch: int = int32("0+")
        start_offset: int = int64("0+")

    group_id: str = string("0+")
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = array("InitializeStateData", "0+")


@attrs.define
class InitializeShareGroupStateResponse:
    """Response of API key 83: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=83, versions="0", flexible="0+")

    @attrs.define
    class InitializeStateResult:
        """One element of `results`."""

        topic_id: bytes = uuid("0+")
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        """One element of `partitions`."""

        partition: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = array("InitializeStateResult", "0+")
