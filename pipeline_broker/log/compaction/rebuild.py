"""A batch with fewer records than before, or with a delete horizon.

Rules of this file: base offset, last offset, producer, sequence, epochs, flags and codec stay; what is rebuilt is what
Apache Kafka writes for the same decision. Records are copied as bytes; where the base timestamp changes (to the delete
horizon, or because the first record went) only their timestamp deltas and lengths are written anew. The max timestamp
is that of the records which stay, unless the broker had stamped it.
"""

from pipeline_broker.log.compaction.record_places import RecordPlace
from pipeline_broker.records.batch import (
    APPEND_TIME_BIT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    assembled,
)
from pipeline_broker.records.compression import compress
from pipeline_broker.records.varint import write_varint

NO_TIMESTAMP = -1
_KEPT_WHEN_EMPTY = APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


def rebuilt_batch(
    header: BatchHeader, data: bytes, kept: list[RecordPlace], new_horizon_ms: int | None
) -> tuple[BatchHeader, bytes]:
    """The batch with only the records at `kept` in its decompressed `data`, and a horizon where one is to be set."""
    append_time = bool(header.attributes & APPEND_TIME_BIT)
    old_base, stamped = header.base_timestamp, header.max_timestamp
    attributes = header.attributes
    if new_horizon_ms is not None:
        base, attributes = new_horizon_ms, attributes | DELETE_HORIZON_BIT
    elif header.delete_horizon_ms is not None:
        base = old_base
    else:
        base = stamped if append_time else old_base + kept[0][3]
    if append_time:
        payload, highest = _written_anew(data, kept, [stamped - base] * len(kept)), stamped
    else:
        highest = max(NO_TIMESTAMP, old_base + max(place[3] for place in kept))
        shift = old_base - base
        payload = _written_anew(data, kept, [place[3] + shift for place in kept]) if shift else _copied(data, kept)
    compression = attributes & COMPRESSION_MASK
    changed = header._replace(attributes=attributes, base_timestamp=base, max_timestamp=highest, record_count=len(kept))
    return assembled(changed, compress(compression, payload) if compression else payload)


def empty_batch(header: BatchHeader) -> tuple[BatchHeader, bytes]:
    """Only the header: the offsets and the producer's last sequence, without records."""
    changed = header._replace(
        attributes=header.attributes & _KEPT_WHEN_EMPTY, base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return assembled(changed, b"")


def _copied(data: bytes, kept: list[RecordPlace]) -> bytes:
    """The records' bytes, neighbours together."""
    parts = []
    start, end = kept[0][0], kept[0][0]
    for place in kept:
        if place[0] != end:
            parts.append(data[start:end])
            start = place[0]
        end = place[2]
    parts.append(data[start:end])
    return b"".join(parts)


def _written_anew(data: bytes, kept: list[RecordPlace], timestamp_deltas: list[int]) -> bytes:
    target = bytearray()
    for (_, rest, end, *_), delta in zip(kept, timestamp_deltas, strict=True):
        head = bytearray(1)  # record attributes: none are defined
        write_varint(head, delta)
        write_varint(target, len(head) + end - rest)
        target += head
        target += data[rest:end]
    return bytes(target)
