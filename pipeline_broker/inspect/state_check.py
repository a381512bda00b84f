"""A search for records of internal topics that a startup would set aside as unreadable.

The records are decoded with the functions of the startup (`record_readers`). Records that are readable but contradict
earlier ones are found only by a startup.
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
    """Yield the records of a batch that a startup would set aside.

    Args:
        topic: name of an existing topic; None for a deleted one, because a startup skips its records.
        header: the header of the batch, which is intact.
        selection: the records to check.
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
