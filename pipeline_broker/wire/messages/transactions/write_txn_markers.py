"""WriteTxnMarkers: send the outcome of transactions from their coordinator to partitions."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int8, int16, int32, int64, string


@attrs.define
class WriteTxnMarkersRequest:
    SCHEMA = schema_of(ApiKey.WRITE_TXN_MARKERS)

    @attrs.define
    class WritableTxnMarkerTopic:
        name: str = string("0+")
        partition_indexes: list[int] = array("int32", "0+")

    @attrs.define
    class WritableTxnMarker:
        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        transaction_result: bool = boolean("0+")
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = array("WritableTxnMarkerTopic", "0+")
        coordinator_epoch: int = int32("0+")
        transaction_version: int = int8("2+", default=0, ignorable=True)

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = array("WritableTxnMarker", "0+")


@attrs.define
class WriteTxnMarkersResponse:
    SCHEMA = schema_of(ApiKey.WRITE_TXN_MARKERS)

    @attrs.define
    class WritableTxnMarkerPartitionResult:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    @attrs.define
    class WritableTxnMarkerTopicResult:
        name: str = string("0+")
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = array(
            "WritableTxnMarkerPartitionResult", "0+"
        )

    @attrs.define
    class WritableTxnMarkerResult:
        producer_id: int = int64("0+")
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = array("WritableTxnMarkerTopicResult", "0+")

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = array("WritableTxnMarkerResult", "0+")
