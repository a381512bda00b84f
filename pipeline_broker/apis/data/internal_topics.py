"""What a client may append to an internal topic: records that the next start can read.

Rules of this file: records are read with the functions that a start reads them with. A type that is not known there is
stepped over by a start, so it is allowed, as in Apache Kafka.
"""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.steps import ELEMENT_COST, Stepwise
from pipeline_broker.broker.record_readers import reader_of
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.records.batch import BatchHeader, Buffer
from pipeline_broker.records.check import RECORD_ERRORS_MAX
from pipeline_broker.records.errors import BatchTooLarge, InvalidRecord
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.set_aside import reason_line

__all__ = ["STATE_RECORDS_MAX", "check_readable"]

STATE_RECORDS_MAX = 10_000
"""In a batch of state that a client writes: as many as librdkafka puts into one. Each is read again by every start, and
records that are alike take less than a byte of a compressed batch."""


def check_readable(call: Call, log: PartitionLog, header: BatchHeader, batch: Buffer) -> Stepwise[None]:
    """Refuse records that a start would set aside because it cannot read them.

    Args:
        call: what is charged.
        log: of an internal topic.
        header: of the batch, which was checked.
        batch: a client's.

    Raises:
        BatchTooLarge: there are more records than STATE_RECORDS_MAX.
        InvalidRecord: there are such records; it names them.
    """
    reader = reader_of(log.topic)
    if reader is None:
        return
    if (count := header.record_count) > STATE_RECORDS_MAX:
        raise BatchTooLarge(f"a batch of {log.topic} may have {STATE_RECORDS_MAX} records, not {count}")
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
        raise InvalidRecord(f"records that the coordinator of {log.topic} could not read", tuple(unreadable))
