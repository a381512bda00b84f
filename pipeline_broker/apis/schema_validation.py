"""Validation of the schema ids of produced records, as in Confluent Server.

A key or value must have an id that is registered for the subject TOPIC-key or TOPIC-value. Null keys and values are
allowed. The data after the id is not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.steps import Stepwise, wait_for_place
from pipeline_broker.base.schema_id import HEAD_BYTES, head_of, read_schema_id
from pipeline_broker.records.check import RECORD_ERRORS_MAX, RECORDS_BYTES_A_TURN
from pipeline_broker.records.content_heads import content_heads
from pipeline_broker.records.errors import BatchTooLarge, InvalidRecord
from pipeline_broker.records.record import record_bytes
from stages.request import Parked, Waiting

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.base.buffer import Buffer
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.records.batch import BatchHeader

__all__ = ["check_schemas"]

# Cost of one record, about microseconds.
RECORD_COST = 2
# The parts of a record in the order of `content_heads`.
PARTS = ("key", "value")


def check_schemas(call: Call, log: PartitionLog, header: BatchHeader, batch: Buffer) -> Stepwise[None]:
    """Refuse a batch with a record whose key or value has no registered schema.

    Args:
        header: header of the batch, already checked.

    Raises:
        InvalidRecord: some records have no registered schema. The error lists up to RECORD_ERRORS_MAX of them.
    """
    schemas, line, rules = call.broker.schemas, call.broker.long_batches, log.rules
    if schemas is None:
        raise InvalidRecord(f"{log.topic} validates schemas, but this broker runs without --schema-registry")
    if not schemas.is_current:
        yield Waiting(schemas.catch_up)
    heads = {part: frozenset(map(head_of, schemas.ids(f"{log.topic}-{part}"))) for part in rules.parts_with_schemas}
    try:
        data = record_bytes(batch, header, RECORDS_BYTES_A_TURN)
    except BatchTooLarge:
        try:
            yield from wait_for_place(call, line)
            data = yield Parked(lambda: record_bytes(batch, header, rules.decompressed_size_max))
            yield from _check_heads(call, log.topic, data, heads)
        finally:
            line.leave(call)
    else:
        yield from _check_heads(call, log.topic, data, heads)


def _check_heads(call: Call, topic: str, data: bytes, heads: dict[str, frozenset[bytes]]) -> Stepwise[None]:
    checks = [(PARTS.index(part), known) for part, known in heads.items()]
    faults: list[tuple[int, str]] = []
    for index, found in enumerate(content_heads(data, HEAD_BYTES)):
        for number, known in checks:
            head = found[number]
            if head is not None and head not in known:
                faults.append((index, _reason(head, PARTS[number], topic)))
                break  # one reason for each record
        if len(faults) == RECORD_ERRORS_MAX:
            break
        if call.is_turn_over(RECORD_COST):
            yield None
    if faults:
        raise InvalidRecord(f"records of {topic} have no registered schema", tuple(faults))


def _reason(head: bytes, part: str, topic: str) -> str:
    schema_id = read_schema_id(head)
    if schema_id is None:
        return f"the {part} has no schema id"
    return f"schema {schema_id} of the {part} is not registered for the subject {topic}-{part}"
