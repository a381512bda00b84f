"""What a client may append to an internal topic: records that the next start can read.

Rules of this file: records are read with the functions that a start reads them with. A type that is not known there is
stepped over by a start, so it is allowed, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline_broker.record_readers import Reader, reader_of
from pipeline_broker.records.check import RECORD_ERRORS_MAX, check_batch
from pipeline_broker.records.errors import InvalidRecord, RecordError
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.set_aside import reason_line

if TYPE_CHECKING:
    from pipeline_broker.log.partition_log import PartitionLog
    from pipeline_broker.records.batch import BatchHeader, Buffer

__all__ = ["check_readable"]


def check_readable(log: PartitionLog, batch: Buffer, now_ms: int, *, zstd_allowed: bool) -> None:
    """Refuse records that a start would set aside because it cannot read them; what is no batch is left to `produce`.

    Args:
        log: of an internal topic.
        batch: a client's.
        now_ms: wall clock.
        zstd_allowed: see `check_batch`.

    Raises:
        InvalidRecord: there are such records; it names them.
    """
    reader = reader_of(log.topic)
    if reader is None:
        return
    try:
        header = check_batch(batch, now_ms, log.rules, zstd_allowed=zstd_allowed, transactions_allowed=True)
    except RecordError:
        return
    unreadable = []
    for problem in _unreadable(reader, header, batch, log.rules.decompressed_size_max):
        unreadable.append(problem)
        if len(unreadable) == RECORD_ERRORS_MAX:
            break
    if unreadable:
        log.refuse(batch)
        raise InvalidRecord(f"records that the coordinator of {log.topic} could not read", tuple(unreadable))


def _unreadable(reader: Reader, header: BatchHeader, batch: Buffer, size_max: int) -> Iterator[tuple[int, str]]:
    for index, record in enumerate(iterate_records(batch, header, size_max=size_max)):
        try:
            reader(record.key or b"", record.value)
        except CorruptStateRecordError as error:
            yield index, reason_line(error)
