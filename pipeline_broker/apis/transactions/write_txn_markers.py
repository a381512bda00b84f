"""WriteTxnMarkers: end transactions in partitions, and answer when that is durable.

It is for brokers among each other: who may alter the cluster, or act as a broker, may ask it. The markers of a request
are appended in its order; a producer is answered once, a partition by the last of its markers that was appended, as in
Apache Kafka. The coordinator whose topic a marker ends a transaction in is told of it.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

from pipeline_broker.apis.authorization import may_of_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from stages.request import Close, Final, Pending, Result

logger = logging.getLogger(__name__)

Marker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

Results: TypeAlias = dict[int, dict[str, dict[int, ErrorCode]]]
"""By producer id, topic and partition."""


def handle(call: Call, request: WriteTxnMarkersRequest) -> Result:
    """Append what may be appended; the answer waits for all of it."""
    if not may_of_cluster(call, AclOperation.ALTER, is_logged=False) and not may_of_cluster(
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
        logger.exception("transactions were ended, but that cannot be answered")
        answer = Close("markers were appended, but the request failed")
    if not appended:
        return answer

    def apply() -> None:
        for entry, marker in appended:
            call.broker.marker_durable(entry.log, marker.producer_id, is_commit=marker.transaction_result)

    return Pending([entry for entry, _ in appended], answer, apply)


def _append_all(call: Call, request: WriteTxnMarkersRequest, appended: list[tuple[JournalEntry, Marker]]) -> Results:
    """Append marker by marker, noting each in `appended` at once; who names no partition gets no answer (KafkaApis)."""
    results: Results = {}
    for marker in request.markers:
        for name, indexes in _named(marker).items():
            for index in indexes:
                log = call.broker.find_log(name, b"", index, by_id=False)
                code = log if isinstance(log, ErrorCode) else _append(call, log, marker, appended)
                results.setdefault(marker.producer_id, {}).setdefault(name, {})[index] = code
    return results


def _named(marker: Marker) -> dict[str, dict[int, None]]:
    """The partitions that are named, each once: Apache Kafka never answers who names one twice."""
    named: dict[str, dict[int, None]] = {}
    for topic in marker.topics:
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
        told = [
            TopicResult(name, [PartitionResult(index, code) for index, code in partitions.items()])
            for name, partitions in topics.items()
        ]
        markers.append(MarkerResult(producer_id, told))
    return WriteTxnMarkersResponse(markers)


def error_response(request: WriteTxnMarkersRequest, call: Call, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Every partition with the same error; of several markers for one producer the last is told of, as by Kafka."""
    del call
    results: Results = {
        marker.producer_id: {name: dict.fromkeys(indexes, code) for name, indexes in _named(marker).items()}
        for marker in request.markers
    }
    return _response(results)
