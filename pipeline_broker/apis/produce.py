"""Produce: check record batches, give them their offsets, and answer when they are durable.

acks=0 gets no answer: its slot is released without bytes, and an error closes the connection, because there is no
response that could carry it. acks=1 is answered like acks=all, when durable.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import topics_allowed
from pipeline_broker.apis.produce_template import ProduceTemplates
from pipeline_broker.apis.throttling import throttle
from pipeline_broker.log.errors import LogError
from pipeline_broker.records.check import first_header
from pipeline_broker.records.errors import BatchTooLarge, CorruptFirstHeader, RecordError
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.produce import ProduceRequest, ProduceResponse
from stages.request import NO_OP, Close, Final, Pending, Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.apis.transactional_produce import Admission
    from pipeline_broker.log.entry import Appended, JournalEntry
    from pipeline_broker.log.partition_log import PartitionLog
    from pipeline_broker.records.batch import Buffer

__all__ = ["REQUEST", "error_response", "handle", "refuse_batches"]

logger = logging.getLogger(__name__)

REQUEST = ProduceRequest
ACKS = frozenset({-1, 0, 1})
ZSTD_FROM = 7
TOPIC_ID_FROM = 13
NO_OFFSET = -1
ADMIN_CLIENT_ID = "__admin_client"
"""The one client id that may write to internal topics, as in Apache Kafka."""

EXPECTED = frozenset({"CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
"""Errors of records that do not count as failed requests in Apache Kafka."""

REFUSED_TEXTS = {ErrorCode.INVALID_TXN_STATE: "Partition was not added to the transaction"}
"""What is said with a refusal of the transaction coordinator, as in Apache Kafka."""

PartitionResponse = ProduceResponse.PartitionProduceResponse
RecordProblem = ProduceResponse.BatchIndexAndErrorMessage


def handle(call: Call, request: ProduceRequest) -> Result:
    """Append what may be appended; the result waits for all of it."""
    call.request.acks = request.acks
    admission = _admit(call, request)
    if isinstance(admission, ErrorCode):
        refuse_batches(request, call)
        if request.acks:
            return call.send(error_response(request, call, admission))
        return _close(call, _all_refused(request, admission), admission)
    entries: list[JournalEntry] = [] if admission is None else [*admission.appending.entries]
    on_durable = None if admission is None else admission.appending.apply
    try:
        result, is_waiting = _append_all(call, request, entries, admission)
    except Exception:
        if not entries:
            raise
        # What is in a log must reach the journal, whatever happened since: only the answer may be lost.
        logger.exception("a produce request failed after batches of it were appended")
        appended_to = {entry.log for entry in entries}
        refuse_batches(request, call, appended_to)
        return Pending(entries, Close("produce failed after it was appended"), on_durable)
    # A duplicate whose original is still on the way waits behind it: commits complete in the order of submission.
    # So does what was decided about a transaction that is still on the way.
    is_waiting = is_waiting or admission is not None
    return Pending(entries, result, on_durable) if entries or is_waiting else result


def _append_all(
    call: Call, request: ProduceRequest, entries: list[JournalEntry], admission: Admission | None
) -> tuple[Final, bool]:
    """Append batch by batch, noting each in `entries` at once; the answer, and whether it waits for an original."""
    is_waiting = False
    failure: ErrorCode | None = None
    responses = []
    is_allowed = topics_allowed(call, AclOperation.WRITE)
    for topic in request.topic_data:
        partition_responses = []
        for data in topic.partition_data:
            log = call.broker.find_allowed_log(
                topic.name, topic.topic_id, data.index, is_allowed, by_id=call.version >= TOPIC_ID_FROM
            )
            response, appended = _append(call, data, log, admission)
            partition_responses.append(response)
            if appended is None:
                failure = ErrorCode(response.error_code)
            elif appended.entry is not None:
                entries.append(appended.entry)
            elif appended.in_flight:
                is_waiting = True
        responses.append(ProduceResponse.TopicProduceResponse(topic.name, topic.topic_id, partition_responses))
    result: Final
    _count(call, request)
    if request.acks:
        result = call.send(ProduceResponse(responses))
    else:
        result = NO_OP if failure is None else _close(call, ProduceResponse(responses), failure)
    if len(entries) == 1 == len(responses) == len(partition_responses) and request.acks and admission is None:
        log = entries[0].log
        if log.topic not in call.broker.reserved_topics:  # these are looked at each time
            _remember(call, request, log)
    return result, is_waiting


def _count(call: Call, request: ProduceRequest) -> None:
    """Count the bytes for the client's quota; what has no answer is throttled here."""
    if call.quota is not None:
        call.quota.produced(call.request.size_bytes)
        if not request.acks:  # its time is nobody's, as in Apache Kafka
            throttle(call.request, call.quota.throttle_ms)


def _close(call: Call, response: ProduceResponse, failure: ErrorCode) -> Close:
    """With acks=0 nothing may be sent; the errors count all the same, as in Apache Kafka."""
    call.request.answer = response
    return Close(f"produce with acks=0 failed: {failure.name}")


def _remember(call: Call, request: ProduceRequest, log: PartitionLog) -> None:
    """Let the next request like this one take the short way."""
    frame = call.request.frame
    if type(frame) is bytes:
        templates = call.session.produce_templates
        if templates is None:
            templates = call.session.produce_templates = ProduceTemplates(call.broker)
        templates.remember(frame, call.version, request, log, call.broker.topics_generation, call.client_id)


def _admit(call: Call, request: ProduceRequest) -> Admission | ErrorCode | None:
    """What is wrong with the request as a whole, or what its transaction admits, before anything is appended.

    None where no batch is transactional.
    """
    transactional = False  # told by the batches: what the request itself says is only a claim (CVE-2018-17196)
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is None or not len(data.records):
                continue
            try:
                transactional = first_header(data.records).is_transactional or transactional
            except CorruptFirstHeader:
                return ErrorCode.CORRUPT_MESSAGE
            except RecordError:
                continue  # concerns one partition only
    if not transactional:
        return None
    from pipeline_broker.apis.transactional_produce import admit  # noqa: PLC0415 - nobody else needs the coordinator

    return admit(call, request)


def _append(
    call: Call, data: ProduceRequest.PartitionProduceData, log: PartitionLog | ErrorCode, admission: Admission | None
) -> tuple[PartitionResponse, Appended | None]:
    """The response for one partition, and what was appended unless it is an error."""
    if isinstance(log, ErrorCode):
        _tell_refused(call, None)
        return _refusal(data.index, log), None
    is_reserved = log.topic in call.broker.reserved_topics
    if is_reserved and call.client_id != ADMIN_CLIENT_ID:
        _tell_refused(call, log)
        return _refusal(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION), None
    if call.request.acks not in ACKS:
        _tell_refused(call, log)
        return _refusal(data.index, ErrorCode.INVALID_REQUIRED_ACKS), None
    if admission is not None and log in admission.refusals:
        _tell_refused(call, log)
        log.refuse(data.records or b"")
        return _refusal(data.index, admission.refusals[log], REFUSED_TEXTS.get(admission.refusals[log])), None
    try:
        if is_reserved:
            _check_readable(call, log, data.records or b"")
        if admission is None:
            appended = log.produce(data.records or b"", call.now_ms, zstd_allowed=call.version >= ZSTD_FROM)
        else:
            appended = log.produce_transactional(
                data.records or b"",
                call.now_ms,
                starts_at_zero=admission.starts_at_zero,
                zstd_allowed=call.version >= ZSTD_FROM,
            )
    except RecordError as error:
        _tell_refused(call, log, error, len(data.records or b""))
        problems = [RecordProblem(index, message) for index, message in error.record_errors]
        refusal = _refusal(data.index, ErrorCode[error.error_name], error.message, problems)
        if error.tells_log_start:
            refusal.log_start_offset = log.log_start_offset
        return refusal, None
    except LogError as error:
        _tell_refused(call, log, error)
        refusal = _refusal(data.index, ErrorCode[error.error_name], str(error))
        refusal.log_start_offset = log.log_start_offset
        return refusal, None
    return (
        PartitionResponse(data.index, 0, appended.base_offset, appended.log_append_time_ms, log.log_start_offset),
        appended,
    )


def _check_readable(call: Call, log: PartitionLog, batch: Buffer) -> None:
    """See `check_readable`."""
    from pipeline_broker.apis.internal_topics import check_readable  # noqa: PLC0415 - only tools write these topics

    check_readable(log, batch, call.now_ms, zstd_allowed=call.version >= ZSTD_FROM)


def _tell_refused(
    call: Call, log: PartitionLog | None, error: RecordError | LogError | None = None, size_bytes: int = 0
) -> None:
    """Count a refusal, if anybody observes the broker."""
    metrics = call.broker.topic_metrics
    if metrics is None:
        return
    if log is None:
        metrics.produce_refused(None)
        return
    metrics.produce_refused(log.topic, is_failure=error is not None and error.error_name not in EXPECTED)
    if isinstance(error, BatchTooLarge):
        metrics.bytes_rejected(log.topic, size_bytes)
    if isinstance(error, RecordError) and error.fault:
        metrics.records_faulty(error.fault, max(len(error.record_errors), 1))


def _refusal(
    index: int, code: ErrorCode, message: str | None = None, problems: list[RecordProblem] | None = None
) -> PartitionResponse:
    return PartitionResponse(
        index=index,
        error_code=code,
        base_offset=NO_OFFSET,
        record_errors=problems or [],
        error_message=message,
    )


def refuse_batches(request: ProduceRequest, call: Call, appended_to: Collection[PartitionLog] = ()) -> None:
    """A request is not appended: what idempotent producers sent behind it must not slip in front of it.

    Args:
        request: what was asked for.
        call: its call.
        appended_to: the logs to which it was appended all the same.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            log = call.broker.find_log(topic.name, topic.topic_id, data.index, by_id=call.version >= TOPIC_ID_FROM)
            if not isinstance(log, ErrorCode) and log not in appended_to:
                log.refuse(data.records or b"")


def error_response(request: ProduceRequest, call: Call, code: ErrorCode) -> ProduceResponse | None:
    """Every partition with the same error; None with acks=0, which has no response."""
    return _all_refused(request, code) if request.acks else None


def _all_refused(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refusal(data.index, code) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
