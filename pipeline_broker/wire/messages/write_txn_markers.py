"""WriteTxnMarkers: a transaction coordinator tells partitions how transactions ended."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int8, int16, int32, int64, string


@attrs.define
class WriteTxnMarkersRequest:
    """Request of API key 27: versions 1-2, flexible 1+."""

    SCHEMA: ClassVar[Schema] = Schema(key=27, versions="1-2", flexible="1+")

    @attrs.define
    class WritableTxnMarkerTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partition_indexes: list[int] = array("int32", "0+")

    @attrs.define
    class WritableTxnMarker:
        """One element of `markers`."""

        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        transaction_result: bool = boolean("0+")
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = array("WritableTxnMarkerTopic", "0+")
        coordinator_epoch: int = int32("0+")
        transaction_version: int = int8("2+", default=0, ignorable=True)

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = array("WritableTxnMarker", "0+")


@attrs.define
class WriteTxnMarkersResponse:
    """Response of API key 27: versions 1-2, flexible 1+."""

    SCHEMA: ClassVar[Schema] = Schema(key=27, versions="1-2", flexible="1+")

    @attrs.define
    class WritableTxnMarkerPartitionResult:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    @attrs.define
    class WritableTxnMarkerTopicResult:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = array(
            "WritableTxnMarkerPartitionResult", "0+"
        )

    @attrs.define
    class WritableTxnMarkerResult:
        """One element of `markers`."""

        producer_id: int = int64("0+")
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = array("WritableTxnMarkerTopicResult", "0+")

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = array("WritableTxnMarkerResult", "0+")
