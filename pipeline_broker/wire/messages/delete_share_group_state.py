"""DeleteShareGroupState: forget the state of share partitions."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string, uuid


@attrs.define
class DeleteShareGroupStateRequest:
    """Request of API key 86: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=86, versions="0", flexible="0+")

    @attrs.define
    class DeleteStateData:
        """One element of `topics`."""

        topic_id: bytes = uuid("0+")
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        """One element of `partitions`."""

        partition: int = int32("0+")

    group_id: str = string("0+")
    topics: list[DeleteShareGroupStateRequest.DeleteStateData] = array("DeleteStateData", "0+")


@attrs.define
class DeleteShareGroupStateResponse:
    """Response of API key 86: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=86, versions="0", flexible="0+")

    @attrs.define
    class DeleteStateResult:
        """One element of `results`."""

        topic_id: bytes = uuid("0+")
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = array("PartitionResult", "0+")

    @attrs.define
    class PartitionResult:
        """One element of `partitions`."""

        partition: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)

    results: list[DeleteShareGroupStateResponse.DeleteStateResult] = array("DeleteStateResult", "0+")
