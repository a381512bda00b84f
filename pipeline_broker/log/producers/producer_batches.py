"""Producer state changes of batches: checked on append, unchecked on replay.

Replayed batches, from the journal or in the archiver, were checked when they were appended.
"""

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.producers.producer_state import ProducedBatch, ProducerStates
from pipeline_broker.records.batch import BatchHeader
from pipeline_broker.records.control_batch import read_marker

__all__ = ["note_among_transactions", "produced_batch", "replay_transactional"]


def produced_batch(header: BatchHeader, base_offset: int) -> ProducedBatch:
    last_offset = base_offset + header.last_offset_delta
    return ProducedBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, header.max_timestamp)


def note_among_transactions(
    producers: ProducerStates, header: BatchHeader, base_offset: int, now_ms: int
) -> ProducedBatch | None:
    """Check and record a transactional batch, or any batch with a producer while transactions are open.

    Returns:
        the original batch if this one is a duplicate, which changes nothing; otherwise None.

    Raises:
        LogError: the batch is refused, and nothing has changed.
    """
    producer_id, epoch = header.producer_id, header.producer_epoch
    if header.base_sequence < 0:
        producers.check_without_sequence(producer_id, epoch)
    else:
        original = producers.check(producer_id, epoch, header.base_sequence, header.last_sequence)
        if original is not None:
            return original
    if not header.is_transactional:
        producers.check_outside(producer_id)
    producers.record(producer_id, epoch, produced_batch(header, base_offset), now_ms)
    if header.is_transactional:
        producers.open.setdefault(producer_id, base_offset)
    return None


def replay_transactional(producers: ProducerStates, header: BatchHeader, batch: Buffer, now_ms: int) -> None:
    """Apply a durable batch of a transaction, or a marker. A marker batch that compaction has emptied changes nothing.

    Raises:
        RecordError: a marker cannot be decoded.
    """
    producer_id, epoch = header.producer_id, header.producer_epoch
    if header.is_control:
        marker = read_marker(header, batch)
        if marker is not None:
            producers.record_marker(producer_id, epoch, marker, header.base_offset, header.max_timestamp, now_ms)
        return
    producers.record(producer_id, epoch, produced_batch(header, header.base_offset), now_ms)
    producers.open.setdefault(producer_id, header.base_offset)
