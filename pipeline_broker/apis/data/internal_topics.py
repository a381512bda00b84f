"""Validation of records that clients append to internal topics, with the functions that read them at startup.

As in Apache Kafka, records of an unknown type are allowed; startup skips them.
"""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise
from pipeline_broker.base.buffer import Buffer
from pipeline_broker.broker.record_readers import reader_of
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.check import RECORD_ERRORS_MAX
from pipeline_broker.records.errors import BatchTooLarge, InvalidRecord
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.set_aside import reason_line

__all__ = ["STATE_RECORDS_MAX", "check_readable"]

STATE_RECORDS_MAX = 10_000
"""Records in one batch for an internal topic; a batch with more gets MESSAGE_TOO_LARGE. librdkafka puts as many into
one. Each startup reads them again."""


def check_readable(call: Call, log: PartitionLog, header: BatchHeader, batch: Buffer) -> Stepwise[None]:
    """Refuse records that startup could not read and would set aside. Accept any record of a topic without a reader.

    Args:
        call: charged for the work.
        header: header of the batch, already checked.

    Raises:
        BatchTooLarge: the batch has more than STATE_RECORDS_MAX records.
        InvalidRecord: some records are unreadable. The error lists up to RECORD_ERRORS_MAX of them.
    """
    reader = reader_of(log.topic)
    if reader is None:
        return
    if (count := header.record_count) > STATE_RECORDS_MAX:
        raise BatchTooLarge(f"a batch of {log.topic} may have at most {STATE_RECORDS_MAX} records, not {count}")
    unreadable: list[tuple[int, str]] = []
    for index, record in enumerate(iterate_records(batch, header, size_max=log.rules.decompressed_size_max)):
        try:
            reader(record.key or b"", record.value)
        except CorruptStateRecordError as error:
            unreadable.append((index, reason_line(error)))
            if len(unreadable) == RECORD_ERRORS_MAX:
                break
        if call.is_turn_over(ELEMENT_COST):
            yield None
    if unreadable:
        raise InvalidRecord(f"the coordinator of {log.topic} could not read some records", tuple(unreadable))
