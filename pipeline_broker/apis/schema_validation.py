"""Validation of the schema ids of produced records, as in Confluent Server.

A key or value must have an id that is registered for the subject TOPIC-key or TOPIC-value. Null keys and values are
allowed. The data after the id is not checked.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pipeline_broker.apis.steps import Stepwise, wait_for_place
from pipeline_broker.base.schema_id import read_schema_id
from pipeline_broker.records.check import RECORD_ERRORS_MAX, RECORDS_BYTES_A_TURN
from pipeline_broker.records.errors import BatchTooLarge, InvalidRecord
from pipeline_broker.records.record import Record, record_bytes, records_in
from stages.request import Parked, Waiting

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.base.buffer import Buffer
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.records.batch import BatchHeader

__all__ = ["check_schemas"]

# Cost of one record, about microseconds.
RECORD_COST = 3


def check_schemas(call: Call, log: PartitionLog, header: BatchHeader, batch: Buffer) -> Stepwise[None]:
    """Refuse a batch with a record whose key or value has no registered schema.

    Args:
        header: header of the batch, already checked.

    Raises:
        InvalidRecord: some records have no registered schema. The error lists up to RECORD_ERRORS_MAX of them.
    """
    schemas, line = call.broker.schemas, call.broker.long_batches
    if schemas is None:
        raise InvalidRecord(f"{log.topic} validates schemas, but this broker runs without --schema-registry")
    if not schemas.is_current:
        yield Waiting(schemas.catch_up)
    size_max = log.rules.decompressed_size_max
    expected = {part: schemas.ids(f"{log.topic}-{part}") for part in log.rules.parts_with_schemas}
    try:
        data = record_bytes(batch, header, RECORDS_BYTES_A_TURN)
    except BatchTooLarge:
        try:
            yield from wait_for_place(call, line)
            data = yield Parked(lambda: record_bytes(batch, header, size_max))
            yield from _check_ids(call, log.topic, header, data, expected)
        finally:
            line.leave(call)
    else:
        yield from _check_ids(call, log.topic, header, data, expected)


def _check_ids(
    call: Call, topic: str, header: BatchHeader, data: bytes, expected: dict[str, AbstractSet[int]]
) -> Stepwise[None]:
    faults: list[tuple[int, str]] = []
    for index, record in enumerate(records_in(data, header)):
        fault = _fault(record, topic, expected)
        if fault is not None:
            faults.append((index, fault))
            if len(faults) == RECORD_ERRORS_MAX:
                break
        if call.is_turn_over(RECORD_COST + len(record.headers)):
            yield None
    if faults:
        raise InvalidRecord(f"records of {topic} have no registered schema", tuple(faults))


def _fault(record: Record, topic: str, expected: dict[str, AbstractSet[int]]) -> str | None:
    for part, ids in expected.items():
        content = record.key if part == "key" else record.value
        if content is None:
            continue
        schema_id = read_schema_id(content)
        if schema_id is None:
            return f"the {part} has no schema id"
        if schema_id not in ids:
            return f"schema {schema_id} of the {part} is not registered for the subject {topic}-{part}"
    return None
