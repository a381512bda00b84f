"""WriteTxnMarkers: ends transactions in partitions.

Brokers send it to each other; the client needs ALTER on the cluster, or CLUSTER_ACTION. The markers are appended in the
order of the request. As in Apache Kafka, the response has one result for each producer, with the error of the last
marker in each partition. A durable marker is reported to the coordinator that owns the partition's topic.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from stages.request import Close, Final, Pending, Result

logger = logging.getLogger(__name__)

Marker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

# Errors by producer id, topic and partition.
Results: TypeAlias = dict[int, dict[str, dict[int, ErrorCode]]]


def handle(call: Call, request: WriteTxnMarkersRequest) -> Result:
    if not authorize_cluster(call, AclOperation.ALTER, is_logged=False) and not authorize_cluster(
        call, AclOperation.CLUSTER_ACTION
    ):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if any(marker.producer_id < 0 or marker.producer_epoch < 0 for marker in request.markers):
        return call.send(error_response(request, call, ErrorCode.UNKNOWN_SERVER_ERROR))
    appended: list[tuple[JournalEntry, Marker]] = []
    try:
        answer: Final = call.send(_response(_append_all(call, request, appended)))
    except Exception:
        if not appended:
            raise
        logger.exception("cannot answer WriteTxnMarkers after its markers were appended")
        answer = Close("WriteTxnMarkers failed after its markers were appended")
    if not appended:
        return answer

    def apply() -> None:
        for entry, marker in appended:
            call.broker.marker_durable(entry.log, marker.producer_id, is_commit=marker.transaction_result)

    return Pending([entry for entry, _ in appended], answer, apply)


def _append_all(call: Call, request: WriteTxnMarkersRequest, appended: list[tuple[JournalEntry, Marker]]) -> Results:
    # As in KafkaApis, a marker without partitions has no result.
    results: Results = {}
    for marker in request.markers:
        for name, indexes in _named(marker).items():
            for index in indexes:
                log = call.broker.find_log(name, b"", index, by_id=False)
                # `appended` grows with each marker, so that none is lost if a later one raises.
                code = log if isinstance(log, ErrorCode) else _append(call, log, marker, appended)
                results.setdefault(marker.producer_id, {}).setdefault(name, {})[index] = code
    return results


def _named(marker: Marker) -> dict[str, dict[int, None]]:
    named: dict[str, dict[int, None]] = {}
    for topic in marker.topics:
        # Apache Kafka never answers a request that names a partition twice, so duplicates count once.
        named.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return named


def _append(call: Call, log: PartitionLog, marker: Marker, appended: list[tuple[JournalEntry, Marker]]) -> ErrorCode:
    try:
        made = log.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            committed=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            now_ms=call.now_ms,
            version=marker.transaction_version,
        )
    except LogError as error:
        return ErrorCode[error.error_name]
    assert made.entry is not None, "a marker has no duplicate"
    appended.append((made.entry, marker))
    return ErrorCode.NONE


def _response(results: Results) -> WriteTxnMarkersResponse:
    markers = []
    for producer_id, topics in results.items():
        topic_results = [
            TopicResult(name, [PartitionResult(index, code) for index, code in partitions.items()])
            for name, partitions in topics.items()
        ]
        markers.append(MarkerResult(producer_id, topic_results))
    return WriteTxnMarkersResponse(markers)


def error_response(request: WriteTxnMarkersRequest, call: Call, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Build the response with `code` for every partition; as in Kafka, the last marker of a producer counts."""
    del call
    results: Results = {
        marker.producer_id: {name: dict.fromkeys(indexes, code) for name, indexes in _named(marker).items()}
        for marker in request.markers
    }
    return _response(results)
