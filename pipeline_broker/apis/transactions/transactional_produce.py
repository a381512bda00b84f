"""Produce as part of a transaction: whether the producer has one, and which partitions belong to it.

Rules of this file: it is imported for the first transactional batch. All of it is decided before anything is appended
and without waiting, so that pipelined batches keep their order (other brokers have to ask a coordinator, and let later
requests overtake). From version 12 on a partition becomes part of the transaction by the batch that is written to it:
the record that says so and the batch are one commit, the record first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.apis.authorization import may
from pipeline_broker.apis.transactions.transaction_errors import Joining, joining_of_produce, produce_error
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.check import first_header
from pipeline_broker.records.errors import RecordError
from pipeline_broker.security.acl import AclOperation, ResourceType
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.state.transactions.transaction import VERSION_2, Partition
from pipeline_broker.wire.error import ErrorCode

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.broker.transactions import Appending
    from pipeline_broker.log.entry import Buffer
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.wire.messages.data.produce import ProduceRequest

__all__ = ["Admission", "admit"]


@attrs.frozen(eq=False)
class Admission:
    """What may be appended.

    Attributes:
        refusals: why a batch may not, by its log.
        appending: what is committed in front of the batches.
        starts_at_zero: see `PartitionLog.append_checked`.
    """

    refusals: Mapping[PartitionLog, ErrorCode]
    appending: Appending
    starts_at_zero: bool


def admit(call: Call, request: ProduceRequest, found: Iterable[tuple[PartitionLog, Buffer]]) -> Admission | ErrorCode:
    """Look at all transactional batches of a request; an error is about the whole of it.

    Args:
        request: what was sent.
        found: its batches that may be appended as far as the client's rights and the partitions go.
    """
    transactional_id = request.transactional_id
    if transactional_id is None or not may(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    transactions = call.broker.transactions
    joining = joining_of_produce(call.version)
    is_added = joining is Joining.ADDED
    batches = _transactional_batches(found)
    if len({header.producer_id for _, header in batches}) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not is_added and not call.broker.config.transaction_partition_verification_enable:
        return Admission({}, transactions.nothing, starts_at_zero=False)
    unknown = {
        log: header
        for log, header in batches
        if not transactions.is_going_on(log, header.producer_id, header.producer_epoch)
    }
    if not unknown:
        return Admission({}, transactions.nothing, starts_at_zero=is_added)
    refusal = transactions.refusal
    if refusal is not None:
        code = produce_error(refusal, joining)
        return Admission(dict.fromkeys(unknown, code), transactions.nothing, starts_at_zero=is_added)
    header = next(iter(unknown.values()))
    producer = Producer(header.producer_id, header.producer_epoch)
    partitions = {log: Partition(log.topic, log.partition) for log in unknown}
    if is_added:
        now_ms = transactions.time(call.now_ms)
        code, appending = transactions.add(transactional_id, producer, list(partitions.values()), VERSION_2, now_ms)
        codes = dict.fromkeys(partitions.values(), code)
    else:
        appending = transactions.nothing
        codes = dict(transactions.verify(transactional_id, producer, list(partitions.values())))
    refusals = {
        log: produce_error(codes[partition], joining)
        for log, partition in partitions.items()
        if codes[partition] is not ErrorCode.NONE
    }
    return Admission(refusals, appending, starts_at_zero=is_added)


def _transactional_batches(
    found: Iterable[tuple[PartitionLog, Buffer]],
) -> Sequence[tuple[PartitionLog, BatchHeader]]:
    batches = []
    for log, records in found:
        try:
            header = first_header(records)
        except RecordError:
            continue  # refused for what it is
        if header.is_transactional and header.producer_id >= 0:
            batches.append((log, header))
    return batches
