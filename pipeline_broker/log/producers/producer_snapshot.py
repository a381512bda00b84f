"""The encoding of a partition's producers in the archive's manifest. Open transactions are stored there separately.

Without any marker the layout is that of the first release, which can then read the directory too. Otherwise a number
that cannot be a producer id comes first.

Layout (little-endian), per producer: id 8, epoch 2, expected sequence 4, last append 8, batches 1; then, with markers,
coordinator epoch 4, offset 8 and timestamp 8 of the last marker; then per batch: first sequence 4, last sequence 4,
base offset 8, last offset 8, timestamp 8.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["BATCHES_REMEMBERED", "NOTHING", "ProducedBatch", "StoredProducer", "decode_producers", "encode_producers"]

BATCHES_REMEMBERED = 5  # as in Kafka: a producer may have at most five requests in flight
NOTHING = -1
"""A missing epoch, offset, sequence or timestamp."""
WITH_MARKERS = -2
"""First number of a snapshot with markers."""

_LEAD = struct.Struct("<q")
_PRODUCER = struct.Struct("<qhiqB")
_MARKER = struct.Struct("<iqq")
_BATCH = struct.Struct("<iiqqq")


class ProducedBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class StoredProducer(NamedTuple):
    """The stored state of one producer; missing values are NOTHING."""

    producer_id: int
    epoch: int
    expected_sequence: int
    last_append_ms: int
    batches: tuple[ProducedBatch, ...] = ()
    coordinator_epoch: int = NOTHING
    marker_offset: int = NOTHING
    marker_timestamp: int = NOTHING


def encode_producers(producers: Iterable[StoredProducer]) -> bytes:
    stored = list(producers)
    with_markers = any(it.marker_offset != NOTHING for it in stored)
    pieces = [_LEAD.pack(WITH_MARKERS)] if with_markers else []
    for it in stored:
        pieces.append(_PRODUCER.pack(*it[:4], len(it.batches)))
        if with_markers:
            pieces.append(_MARKER.pack(it.coordinator_epoch, it.marker_offset, it.marker_timestamp))
        pieces += [_BATCH.pack(*batch) for batch in it.batches]
    return b"".join(pieces)


def decode_producers(snapshot: bytes) -> Iterator[StoredProducer]:
    """Yield the producers of a snapshot.

    Raises:
        struct.error: the snapshot is truncated.
    """
    position = 0
    with_markers = snapshot.startswith(_LEAD.pack(WITH_MARKERS))
    if with_markers:
        position = _LEAD.size
    while position < len(snapshot):
        producer_id, epoch, expected, last_append_ms, count = _PRODUCER.unpack_from(snapshot, position)
        position += _PRODUCER.size
        coordinator_epoch = marker_offset = marker_timestamp = NOTHING
        if with_markers:
            coordinator_epoch, marker_offset, marker_timestamp = _MARKER.unpack_from(snapshot, position)
            position += _MARKER.size
        end = position + count * _BATCH.size
        batches = tuple(map(ProducedBatch._make, _BATCH.iter_unpack(snapshot[position:end])))
        position = end
        yield StoredProducer(
            producer_id, epoch, expected, last_append_ms, batches, coordinator_epoch, marker_offset, marker_timestamp
        )
