"""Produce: validates record batches, assigns their offsets, and answers once they are durable.

All batches are checked before one is appended. A check may take several turns, and appended batches must be submitted
in the same turn.

A request with acks=0 has no response. Its slot is released without bytes, and an error closes the connection. acks=1
waits for durability like acks=all.
"""

from __future__ import annotations

import logging
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.apis.authorization import topics_allowed
from pipeline_broker.apis.data.long_batches import check_in_steps
from pipeline_broker.apis.leaders import current_leaders
from pipeline_broker.apis.produce_template import ProduceTemplates
from pipeline_broker.apis.throttling import throttle
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.log.errors import LogError
from pipeline_broker.records.check import first_header
from pipeline_broker.records.errors import BatchTooLarge, CorruptFirstHeader, RecordError
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from stages.request import NO_OP, TURN_COST, Close, Final, Pending, Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.apis.steps import Stepwise
    from pipeline_broker.apis.transactions.transactional_produce import Admission
    from pipeline_broker.base.buffer import Buffer
    from pipeline_broker.log.journal.entry import Appended, JournalEntry
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.records.batch import BatchHeader

__all__ = ["error_response", "handle", "refuse_batches"]

logger = logging.getLogger(__name__)

ACKS: typing.Final = frozenset({-1, 0, 1})
ZSTD_FROM: typing.Final = 7
LEADER_FROM: typing.Final = 10
TOPIC_ID_FROM: typing.Final = 13
NO_OFFSET: typing.Final = -1
# As in Apache Kafka, the only client id that may write to internal topics.
ADMIN_CLIENT_ID: typing.Final = "__admin_client"

# Costs of one partition, about microseconds.
LOOK_COST: typing.Final = 2
CHECK_COST: typing.Final = 10
APPEND_COST: typing.Final = 10
# Batches of a transaction that are admitted and appended in one turn.
ADMITTED_AT_ONCE_MAX = 400
assert ADMITTED_AT_ONCE_MAX * APPEND_COST <= TURN_COST, "an admission is valid in the turn of its appends only"
# Partitions whose response is encoded in the turn that appends them.
ANSWERED_IN_A_TURN = 1_000

# Record errors that Apache Kafka does not count as failed requests.
EXPECTED: typing.Final = frozenset({"CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})

# Kafka's message for a refusal by the transaction coordinator.
REFUSED_TEXTS: typing.Final = {ErrorCode.INVALID_TXN_STATE: "Partition was not added to the transaction"}

PartitionResponse = ProduceResponse.PartitionProduceResponse
RecordProblem = ProduceResponse.BatchIndexAndErrorMessage


def handle(call: Call, request: ProduceRequest) -> Stepwise[Result]:
    call.request.acks = request.acks
    generation = call.broker.topics_generation  # any change of topics or ACLs changes it
    is_transactional = yield from _is_transactional(call, request)
    if isinstance(is_transactional, ErrorCode):
        return _refuse(call, request, is_transactional)
    batches = yield from _checked_batches(call, request, transactions_allowed=is_transactional)
    if not call.broker.can_write:  # checked again: it may have changed between turns
        return _refuse(call, request, ErrorCode.KAFKA_STORAGE_ERROR)
    if not is_transactional:
        return (yield from _append_all(call, request, batches, generation, None))
    from pipeline_broker.apis.transactions import transactional_produce  # noqa: PLC0415 - only transactions need it

    headers = yield from transactional_produce.headers(call, [(it.log, it.checked, it.records) for it in batches])
    refused = transactional_produce.refusal(call, request, headers.values())
    if refused is not None:
        return _refuse(call, request, refused)
    if len(batches) > ADMITTED_AT_ONCE_MAX:
        yield from transactional_produce.join_in_steps(call, request, headers)
    elsewhere = yield from transactional_produce.ask_elsewhere(call, request, headers)

    def admit(some: Sequence[_Batch]) -> Admission:
        found = [(it.log, headers[it.log]) for it in some if it.log in headers]
        return transactional_produce.admit(call, request, found, elsewhere)

    return (yield from _append_all(call, request, batches, generation, admit))


def _append_all(
    call: Call,
    request: ProduceRequest,
    batches: list[_Batch],
    generation: int,
    admit: Callable[[Sequence[_Batch]], Admission] | None,
) -> Stepwise[Result]:
    """Append all batches; the result waits until they are durable.

    Args:
        generation: `Broker.topics_generation` before the batches were checked.
        admit: admits some batches to the transaction; valid for appends in the same turn. None if no batch is
            transactional.
    """
    entries: list[JournalEntry] = []
    admission: Admission | None = None
    on_durable = None
    # The response of a transactional request also waits for the entries of the transaction coordinator.
    is_waiting = admit is not None
    is_long = len(batches) > ANSWERED_IN_A_TURN
    try:
        for number, batch in enumerate(batches):
            # An admission holds in this turn only. Its entries come before the batches, in the same commit.
            if admit is not None and admission is None:
                admission = admit(batches[number : number + ADMITTED_AT_ONCE_MAX])
                entries, on_durable = [*admission.appending.entries], admission.appending.apply
            appended = _append(call, batch, admission)
            if appended is not None:
                # A duplicate waits for its original, if that is not durable yet: commits complete in order of
                # submission.
                is_waiting = is_waiting or appended.in_flight
                if appended.entry is not None:
                    entries.append(appended.entry)
            if call.is_turn_over(APPEND_COST) or (is_long and number + 1 == len(batches)):
                submitted, applied, entries, on_durable, admission = tuple(entries), on_durable, [], None, None
                # Appended entries must be submitted in their turn. Otherwise entries of other requests would be written
                # first, or a closed connection would lose these.
                yield Pending(submitted, NO_OP, applied) if submitted else None
        result = yield from _answer(call, request, batches, is_long=is_long)
    except Exception:
        if not is_waiting:
            raise
        # Appended batches must reach the journal whatever fails afterwards; only the response may be lost.
        logger.exception("a produce request failed after some of its batches were appended")
        refuse_batches(request, call)
        return Pending(entries, Close("a produce request failed after some of its batches were appended"), on_durable)
    if len(entries) == 1 == len(batches) and len(request.topic_data) == 1 and request.acks and admit is None:
        log = batches[0].log
        assert log is not None, "an appended batch has a log"
        # A template skips authorization, so it must not outlive a change of topics or ACLs.
        is_current = generation == call.broker.topics_generation
        # As a template skips checks of single records, those of internal topics or with schemas take the general path.
        if is_current and log.topic not in call.broker.reserved_topics and not log.rules.subject_strategies:
            _remember(call, request, log)
    return Pending(entries, result, on_durable) if is_waiting else result


def _refuse(call: Call, request: ProduceRequest, code: ErrorCode) -> Result:
    refuse_batches(request, call)
    if request.acks:
        return call.send(error_response(request, call, code))
    return _close(call, _all_refused(request, code), code)


@attrs.define(eq=False)
class _Batch:
    """The batch of one partition in a request, and its result.

    Attributes:
        records: as received; empty if null.
        log: the log to append to; None if the batch is refused.
        checked: the header and the batch in their stored form, or the reason for refusing it.
        response: None until the batch is decided.
    """

    topic: ProduceRequest.TopicProduceData
    index: int
    records: Buffer
    log: PartitionLog | None = None
    checked: tuple[BatchHeader, Buffer] | RecordError | None = None
    response: PartitionResponse | None = None


def _checked_batches(call: Call, request: ProduceRequest, *, transactions_allowed: bool) -> Stepwise[list[_Batch]]:
    is_allowed = topics_allowed(call, AclOperation.WRITE)
    by_id = call.version >= TOPIC_ID_FROM
    batches: dict[tuple[str, bytes, int], _Batch] = {}
    for topic in request.topic_data:
        for data in topic.partition_data:
            # A partition that is named twice gets one answer, for its last batch: KafkaApis.handleProduceRequest keeps
            # the batches in a map.
            batches[topic.name, topic.topic_id, data.index] = _Batch(topic, data.index, data.records or b"")
            if call.is_turn_over(LOOK_COST):
                yield None
    for batch in batches.values():
        topic, index = batch.topic, batch.index
        log = call.broker.find_allowed_log(topic.name, topic.topic_id, index, is_allowed, by_id=by_id)
        if isinstance(log, ErrorCode):
            _count_refusal(call, None)
            batch.response = _refusal(index, log)
        elif log.topic in call.broker.reserved_topics and call.client_id != ADMIN_CLIENT_ID:
            _count_refusal(call, log)
            batch.response = _refusal(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        elif call.request.acks not in ACKS:
            _count_refusal(call, log)
            batch.response = _refusal(index, ErrorCode.INVALID_REQUIRED_ACKS)
        else:
            batch.log = log
            try:
                batch.checked = yield from _check(call, log, batch.records, is_transactional=transactions_allowed)
            except RecordError as error:
                # The frames of its traceback refer to the batch: a cycle that would outlive the request.
                batch.checked = error.with_traceback(None)
        if call.is_turn_over(CHECK_COST):
            yield None
    return list(batches.values())


def _check(
    call: Call, log: PartitionLog, records: Buffer, *, is_transactional: bool
) -> Stepwise[tuple[BatchHeader, Buffer]]:
    zstd_allowed = call.version >= ZSTD_FROM
    header, batch = yield from check_in_steps(
        call, records, log.rules, zstd_allowed=zstd_allowed, transactions_allowed=is_transactional
    )
    if log.topic in call.broker.reserved_topics:
        from pipeline_broker.apis.data.internal_topics import check_readable  # noqa: PLC0415 - only tools write these

        yield from check_readable(call, log, header, batch)
    if log.rules.subject_strategies:
        from pipeline_broker.apis.schema_validation import check_schemas  # noqa: PLC0415 - few topics need it

        yield from check_schemas(call, log, header, batch)
    return header, batch


def _is_transactional(call: Call, request: ProduceRequest) -> Stepwise[bool | ErrorCode]:
    """Return whether any batch is transactional, or CORRUPT_MESSAGE if the first header of a partition is corrupt.

    The batches decide, not the transactional id (CVE-2018-17196).
    """
    is_transactional = False
    for topic in request.topic_data:
        for data in topic.partition_data:
            if call.is_turn_over(LOOK_COST):
                yield None
            try:
                is_transactional = first_header(data.records or b"").is_transactional or is_transactional
            except CorruptFirstHeader:
                return ErrorCode.CORRUPT_MESSAGE
            except RecordError:
                pass  # an error of this partition only
    return is_transactional


def _append(call: Call, batch: _Batch, admission: Admission | None) -> Appended | None:
    log, checked, index, records = batch.log, batch.checked, batch.index, batch.records
    if log is None:
        return None
    assert checked is not None, "a batch with a log was checked"
    if admission is not None and log in admission.refusals:
        _count_refusal(call, log)
        log.refuse(records)
        batch.response = _refusal(index, admission.refusals[log], REFUSED_TEXTS.get(admission.refusals[log]))
    elif isinstance(checked, RecordError):
        _count_refusal(call, log, checked, len(records))
        log.refuse(records)
        problems = [RecordProblem(*problem) for problem in checked.record_errors]
        batch.response = _refusal(index, ErrorCode[checked.error_name], checked.message, problems)
        if checked.tells_log_start:
            batch.response.log_start_offset = log.log_start_offset
    elif not call.broker.can_write:
        log.refuse(records)
        batch.response = _refusal(index, ErrorCode.KAFKA_STORAGE_ERROR)
    elif call.broker.logs.find(log.topic, log.partition) is not log:  # deleted between turns
        batch.response = _refusal(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    else:
        starts_at_zero = admission is not None and admission.starts_at_zero
        try:
            appended = log.append_checked(*checked, call.now_ms, starts_at_zero=starts_at_zero)
        except LogError as error:
            _count_refusal(call, log, error)
            batch.response = _refusal(index, ErrorCode[error.error_name], str(error))
            batch.response.log_start_offset = log.log_start_offset
            return None
        batch.response = PartitionResponse(
            index, 0, appended.base_offset, appended.log_append_time_ms, log.log_start_offset
        )
        return appended
    return None


def _answer(call: Call, request: ProduceRequest, batches: list[_Batch], *, is_long: bool) -> Stepwise[Final]:
    responses = {
        (topic.name, topic.topic_id): ProduceResponse.TopicProduceResponse(topic.name, topic.topic_id, [])
        for topic in request.topic_data
    }
    failure: ErrorCode | None = None
    for batch in batches:
        topic, response = batch.topic, batch.response
        assert response is not None
        if response.error_code:
            failure = ErrorCode(response.error_code)
        responses[topic.name, topic.topic_id].partition_responses.append(response)
        if is_long and call.is_turn_over(LOOK_COST):
            yield None
    answer = ProduceResponse(list(responses.values()))
    if call.version >= LEADER_FROM:
        _add_leaders(call, batches, answer)
    _count(call, request)
    if not request.acks:
        return NO_OP if failure is None else _close(call, answer, failure)
    return (yield from call.send_in_steps(answer)) if is_long else call.send(answer)


def _add_leaders(call: Call, batches: list[_Batch], answer: ProduceResponse) -> None:
    misled = [it for it in batches if it.response and it.response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER]
    if not misled:
        return
    by_id = call.version >= TOPIC_ID_FROM
    names = [(call.broker.topic_name(it.topic.topic_id) or "") if by_id else it.topic.name for it in misled]
    places = [(name, batch.index) for name, batch in zip(names, misled, strict=True)]
    leaders, addresses = current_leaders(call, places)
    for batch, leader in zip(misled, leaders, strict=True):
        assert batch.response is not None
        batch.response.current_leader = ProduceResponse.LeaderIdAndEpoch(*leader)
    answer.node_endpoints = [ProduceResponse.NodeEndpoint(*each) for each in addresses]


def _count(call: Call, request: ProduceRequest) -> None:
    if call.quota is not None:
        call.quota.produced(call.request.size_bytes)
        if not request.acks:  # no response carries the throttle; as in Kafka, its time is not charged
            throttle(call.request, call.quota.throttle_ms)


def _close(call: Call, response: ProduceResponse, failure: ErrorCode) -> Close:
    # The response is not sent with acks=0, but as in Apache Kafka its errors are counted.
    call.request.answer = response
    return Close(f"a produce request with acks=0 failed: {failure.name}")


def _remember(call: Call, request: ProduceRequest, log: PartitionLog) -> None:
    frame = call.request.frame
    if type(frame) is bytes:
        templates = call.session.produce_templates
        if templates is None:
            templates = call.session.produce_templates = ProduceTemplates(call.broker)
        templates.remember(frame, call.version, request, log, call.client_id)


def _count_refusal(
    call: Call, log: PartitionLog | None, error: RecordError | LogError | None = None, size_bytes: int = 0
) -> None:
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


def refuse_batches(request: ProduceRequest, call: Call) -> None:
    """Record in the logs that the batches of a request are not appended, in partitions that the client may write to.

    Batches that an idempotent producer sent after a refused one must not be appended before it is sent again. Batches
    that were appended nevertheless change nothing.
    """
    # Requests are refused before topics are authorized too. A client that may not write must not make a log refuse
    # batches with the producer ids of other clients.
    is_allowed = topics_allowed(call, AclOperation.WRITE, is_logged=False)
    by_id = call.version >= TOPIC_ID_FROM
    for topic in request.topic_data:
        for data in topic.partition_data:
            log = call.broker.find_allowed_log(topic.name, topic.topic_id, data.index, is_allowed, by_id=by_id)
            if not isinstance(log, ErrorCode):
                log.refuse(data.records or b"")


def error_response(request: ProduceRequest, call: Call, code: ErrorCode) -> ProduceResponse | None:
    """Build the response with `code` for every partition; None with acks=0, which has no response."""
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
