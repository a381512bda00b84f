"""Validation of the schema ids of produced records, as in Confluent Server.

A key or value must have an id that is registered for its subject, which the topic's subject name strategy derives from
the topic and the name of the record. Null keys and values are allowed. The data after the id is not checked.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pipeline_broker.apis.steps import Stepwise, wait_for_place
from pipeline_broker.base.schema_id import HEAD_BYTES, PATH_BYTES_MAX, head_of, read_message_path, read_schema_id
from pipeline_broker.records.check import RECORD_ERRORS_MAX, RECORDS_BYTES_A_TURN
from pipeline_broker.records.content_heads import content_heads
from pipeline_broker.records.errors import BatchTooLarge, InvalidRecord
from pipeline_broker.records.record import record_bytes
from stages.request import Parked, Waiting

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from pipeline_broker.base.buffer import Buffer
    from pipeline_broker.base.schema_id import MessagePath
    from pipeline_broker.broker.registered_schemas import RegisteredSchemas
    from pipeline_broker.log.partition.partition_log import PartitionLog
    from pipeline_broker.records.batch import BatchHeader

__all__ = ["check_schemas"]

# Cost of one record, and of the longest path of a message, about microseconds.
RECORD_COST = 2
PATH_COST = 16
# The parts of a record in the order of `content_heads`.
PARTS = ("key", "value")
BY_TOPIC = "TopicNameStrategy"
BY_RECORD = "RecordNameStrategy"
SHOWN_CHARACTERS_MAX = 200


def check_schemas(call: Call, log: PartitionLog, header: BatchHeader, batch: Buffer) -> Stepwise[None]:
    """Refuse a batch with a record whose key or value has no registered schema.

    Args:
        header: header of the batch, already checked.

    Raises:
        InvalidRecord: some records have no registered schema. The error lists up to RECORD_ERRORS_MAX of them.
    """
    schemas, line, rules = call.broker.schemas, call.broker.long_batches, log.rules
    if schemas is None:
        raise InvalidRecord(f"{log.topic} validates schemas, but this broker runs without a schema registry")
    if not schemas.is_current:
        yield Waiting(schemas.catch_up)
    checks = [_Check(schemas, log.topic, part, strategy) for part, strategy in rules.subject_strategies]
    try:
        data = record_bytes(batch, header, RECORDS_BYTES_A_TURN)
    except BatchTooLarge:
        try:
            yield from wait_for_place(call, line)
            data = yield Parked(lambda: record_bytes(batch, header, rules.decompressed_size_max))
            yield from _check_heads(call, log.topic, data, checks)
        finally:
            line.leave(call)
    else:
        yield from _check_heads(call, log.topic, data, checks)


def _check_heads(call: Call, topic: str, data: bytes, checks: list[_Check]) -> Stepwise[None]:
    faults: list[tuple[int, str]] = []
    cost = RECORD_COST
    for index, found in enumerate(content_heads(data, HEAD_BYTES + PATH_BYTES_MAX)):
        for check in checks:
            head = found[check.number]
            if head is None or check.accepts(head):
                continue
            reason = yield from check.reason_to_refuse(head)
            cost = RECORD_COST + PATH_COST * sum(each.reads_paths for each in checks)
            if reason is not None:
                faults.append((index, reason))
                break  # one reason for each record
        if len(faults) == RECORD_ERRORS_MAX:
            break
        if call.is_turn_over(cost):
            yield None
    if faults:
        raise InvalidRecord(f"records of {topic} have no registered schema", tuple(faults))


class _Check:
    def __init__(self, schemas: RegisteredSchemas, topic: str, part: str, strategy: str) -> None:
        self.number = PARTS.index(part)  # the position in `content_heads`
        self._schemas, self._part = schemas, part
        self._prefix = "" if strategy == BY_RECORD else f"{topic}-"
        # Accepted heads, with any message or with the given one. Both have at most one entry for each record name.
        self._known: set[bytes] = set()
        self._known_messages: set[tuple[bytes, MessagePath]] = set()
        self._is_by_topic = strategy == BY_TOPIC
        if self._is_by_topic:
            self._known.update(map(head_of, schemas.ids(f"{topic}-{part}")))

    @property
    def reads_paths(self) -> bool:
        return bool(self._known_messages)

    def accepts(self, head: bytes) -> bool:
        start = head[:HEAD_BYTES]
        if start in self._known:
            return True
        return self.reads_paths and (start, _path(head)) in self._known_messages

    def reason_to_refuse(self, head: bytes) -> Stepwise[str | None]:
        part, schema_id = self._part, read_schema_id(head)
        if schema_id is None:
            return f"the {part} has no schema id"
        if self._is_by_topic:
            return self._unregistered(schema_id, part)
        names = self._schemas.record_names(schema_id)
        if names is None:
            yield Waiting(functools.partial(self._schemas.read_record_names, schema_id))
            names = self._schemas.record_names(schema_id) or {}
        path: MessagePath = () if () in names else _path(head)
        if path not in names:
            return f"schema {schema_id} of the {part} is unknown, or names no record"
        if schema_id not in self._schemas.ids(f"{self._prefix}{names[path]}"):
            return self._unregistered(schema_id, names[path])
        if path:
            self._known_messages.add((head[:HEAD_BYTES], path))
        else:
            self._known.add(head[:HEAD_BYTES])
        return None

    def _unregistered(self, schema_id: int, name: str) -> str:
        subject = f"{self._prefix}{name[:SHOWN_CHARACTERS_MAX]}"
        return f"schema {schema_id} of the {self._part} is not registered for the subject {subject}"


def _path(head: bytes) -> MessagePath:
    try:
        return read_message_path(head)[0]
    except ValueError:
        return ()
