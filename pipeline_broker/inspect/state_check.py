"""Finds the records of internal topics that a start would set aside because it cannot read them.

Rules of this file: records are read with the functions that a start reads them with (`record_readers`). Those that can
be read, but not applied to what was there before, are known to a start only.
"""

from collections.abc import Iterator

from pipeline_broker.broker.record_readers import Reader, reader_of
from pipeline_broker.inspect.findings import SetAsideFound
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.internal_topics import METADATA_TOPIC
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID
from pipeline_broker.state.set_aside import reason_line

__all__ = ["set_aside_in"]


def set_aside_in(
    topic: str | None, topic_id: bytes, partition: int, header: BatchHeader, batch: memoryview, selection: Selection
) -> Iterator[SetAsideFound]:
    """The records of a batch that a start would set aside.

    Args:
        topic: the name of an existing topic; None for a topic that does not exist, whose records a start steps over.
        header: of the batch, which is intact.
        selection: which records are looked at.
    """
    if topic_id == METADATA_TOPIC_ID:
        topic = METADATA_TOPIC
    reader = None if topic is None or header.is_control else reader_of(topic)
    if topic is None or reader is None or not selection.takes(topic, topic_id, partition):
        return
    for offset, reason in _unreadable(reader, header, batch):
        if selection.takes_offsets(offset, offset):
            yield SetAsideFound(topic, topic_id, partition, offset, reason)


def _unreadable(reader: Reader, header: BatchHeader, batch: memoryview) -> Iterator[tuple[int, str]]:
    offset = header.base_offset
    try:
        for record in iterate_records(batch, header):
            try:
                reader(record.key or b"", record.value)
            except CorruptStateRecordError as error:
                yield record.offset, reason_line(error)
            offset = record.offset + 1
    except RecordError as error:
        yield offset, reason_line(error)
