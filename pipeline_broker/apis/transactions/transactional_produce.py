"""Transactional batches of Produce: checks the producer's transaction, and adds partitions to it.

Everything is decided before a batch is appended, without waiting, so that pipelined batches keep their order. Other
brokers must query a coordinator, and let later requests overtake. From version 12 a batch adds its partition to the
transaction. The record that adds the partition and the batch are one commit, the record first. Many batches are
admitted in several turns; then one record adds their partitions in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.apis.authorization import authorize
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.apis.transactions.remote_coordinator import RemoteAnswer, ask_coordinator, coordinator_elsewhere
from pipeline_broker.apis.transactions.transaction_errors import Joining, joining_of_produce, produce_error
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.transaction_shard import NOTHING_APPENDED, Appending
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.check import first_header
from pipeline_broker.records.errors import RecordError
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import VERSION_2, Partition
from stages.request import NO_OP, Pending

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.base.buffer import Buffer
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.wire.messages.data.produce import ProduceRequest

__all__ = ["Admission", "admit", "ask_elsewhere", "headers", "join_in_steps", "refusal"]

# Cost of checking whether a partition is part of the transaction, about microseconds.
LOOK_COST = 1


@attrs.frozen(eq=False)
class Admission:
    """The decision about transactional batches.

    Attributes:
        refusals: errors of the refused batches, by log.
        appending: entries committed before the batches.
        starts_at_zero: see `PartitionLog.append_checked`.
    """

    refusals: Mapping[PartitionLog, ErrorCode]
    appending: Appending
    starts_at_zero: bool


def headers(
    call: Call,
    batches: Iterable[tuple[PartitionLog | None, tuple[BatchHeader, Buffer] | RecordError | None, Buffer]],
) -> Stepwise[dict[PartitionLog, BatchHeader]]:
    """Return the headers of the transactional batches with a producer id, by log.

    They include the readable headers of invalid batches.

    Args:
        batches: for each its log, None if it is refused; the result of its check; and its bytes.
    """
    found = {}
    for log, checked, records in batches:
        if log is not None:
            try:
                header = checked[0] if isinstance(checked, tuple) else first_header(records)
            except RecordError:
                continue  # an invalid batch, refused anyway
            if header.is_transactional and header.producer_id >= 0:
                found[log] = header
        if call.is_turn_over(LOOK_COST):
            yield None
    return found


def refusal(call: Call, request: ProduceRequest, of_batches: Iterable[BatchHeader]) -> ErrorCode | None:
    """Return the error that refuses the whole request; None if it is allowed.

    The client must have WRITE on the transactional id, and the batches must have one producer id.

    Args:
        of_batches: headers of the transactional batches.
    """
    transactional_id = request.transactional_id
    if transactional_id is None or not authorize(
        call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if len({header.producer_id for header in of_batches}) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return None


def join_in_steps(call: Call, request: ProduceRequest, by_log: Mapping[PartitionLog, BatchHeader]) -> Stepwise[None]:
    """Add the partitions of a large request to the transaction in one record, before any batch is admitted.

    Otherwise each turn would write a record of all partitions so far. Errors are ignored here; `admit` reports them.
    """
    header = next(iter(by_log.values()), None)
    if header is None or joining_of_produce(call.version) is not Joining.ADDED:
        return
    transactions = call.broker.transactions.writing_coordinator_of(request.transactional_id or "")
    if isinstance(transactions, ErrorCode):
        return
    partitions = []
    for log in by_log:
        # Partitions that are already part of the transaction need no record.
        if not log.producers.is_in_transaction(header.producer_id, header.producer_epoch):
            partitions.append(Partition(log.topic, log.partition))
        if call.is_turn_over(LOOK_COST):
            yield None
    producer = Producer(header.producer_id, header.producer_epoch)
    now_ms = transactions.time(call.now_ms)
    _, appending = transactions.add(request.transactional_id or "", producer, partitions, VERSION_2, now_ms)
    yield Pending(appending.entries, NO_OP, appending.apply)


def ask_elsewhere(
    call: Call, request: ProduceRequest, by_log: Mapping[PartitionLog, BatchHeader]
) -> Stepwise[Mapping[PartitionLog, RemoteAnswer] | None]:
    """Ask the coordinator about partitions that the producer has not written to, if it is another broker.

    Returns:
        None if this broker is the coordinator, or if the settings disable the verification.
    """
    transactional_id = request.transactional_id or ""
    coordinator = coordinator_elsewhere(call, transactional_id)
    joining = joining_of_produce(call.version)
    if coordinator is None or not _is_asked(call, joining):
        return None
    unknown = {
        log: header
        for log, header in by_log.items()
        if not log.producers.is_in_transaction(header.producer_id, header.producer_epoch)
    }
    if not unknown:
        return {}
    header = next(iter(unknown.values()))
    producer = Producer(header.producer_id, header.producer_epoch)
    return (yield from ask_coordinator(call, coordinator, transactional_id, producer, list(unknown), joining))


def _is_asked(call: Call, joining: Joining) -> bool:
    return joining is Joining.ADDED or call.broker.config.transaction_partition_verification_enable


def admit(
    call: Call,
    request: ProduceRequest,
    batches: Sequence[tuple[PartitionLog, BatchHeader]],
    elsewhere: Mapping[PartitionLog, RemoteAnswer] | None,
) -> Admission:
    """Decide about transactional batches, and append the record that adds their partitions to the transaction.

    The batches must be appended in the same turn. The request must not be refused as a whole (`refusal`).

    Args:
        batches: the batches of existing partitions that the client may write to.
        elsewhere: answers of the coordinator, if it is another broker; see `ask_elsewhere`.
    """
    transactional_id = request.transactional_id
    assert transactional_id is not None, "`refusal` refuses requests without it"
    joining = joining_of_produce(call.version)
    is_added = joining is Joining.ADDED
    if not _is_asked(call, joining):
        return Admission({}, NOTHING_APPENDED, starts_at_zero=False)
    unknown = {
        log: header
        for log, header in batches
        if not log.producers.is_in_transaction(header.producer_id, header.producer_epoch)
    }
    if not unknown:
        return Admission({}, NOTHING_APPENDED, starts_at_zero=is_added)
    if elsewhere is not None:
        refusals = {}
        for log, header in unknown.items():
            answer = elsewhere.get(log)  # None if the transaction has ended since
            code = ErrorCode.CONCURRENT_TRANSACTIONS if answer is None else answer.code_now(log, header.producer_id)
            if code is not ErrorCode.NONE:
                refusals[log] = produce_error(code, joining)
        return Admission(refusals, NOTHING_APPENDED, starts_at_zero=is_added)
    transactions = call.broker.transactions.writing_coordinator_of(transactional_id)
    if isinstance(transactions, ErrorCode):
        code = produce_error(transactions, joining)
        return Admission(dict.fromkeys(unknown, code), NOTHING_APPENDED, starts_at_zero=is_added)
    header = next(iter(unknown.values()))
    producer = Producer(header.producer_id, header.producer_epoch)
    partitions = {log: Partition(log.topic, log.partition) for log in unknown}
    if is_added:
        now_ms = transactions.time(call.now_ms)
        code, appending = transactions.add(transactional_id, producer, list(partitions.values()), VERSION_2, now_ms)
        codes = dict.fromkeys(partitions.values(), code)
    else:
        appending = NOTHING_APPENDED
        codes = dict(transactions.verify(transactional_id, producer, list(partitions.values())))
    refusals = {
        log: produce_error(codes[partition], joining)
        for log, partition in partitions.items()
        if codes[partition] is not ErrorCode.NONE
    }
    return Admission(refusals, appending, starts_at_zero=is_added)
