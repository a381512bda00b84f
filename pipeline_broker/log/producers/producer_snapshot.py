"""The producers of a partition as bytes: what the archive's manifest keeps of them.

Rules of this file: no I/O and no decisions. Where no marker was ever seen the layout is that of the first release, so
that a directory without transactions can be read by it too; otherwise a number that is no producer's id stands in
front. Open transactions are not in here: the manifest has them beside it.

Layout (little-endian), per producer: id 8, epoch 2, expected sequence 4, last append 8, batches 1; then, with markers,
coordinator epoch 4, offset 8 and timestamp 8 of the last marker; then per batch: first sequence 4, last sequence 4,
base offset 8, last offset 8, timestamp 8.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["BATCHES_REMEMBERED", "NOTHING", "ProducedBatch", "StoredProducer", "decode_producers", "encode_producers"]

BATCHES_REMEMBERED = 5
NOTHING = -1
"""For an epoch, an offset, a sequence or a time that there is not."""
WITH_MARKERS = -2
"""Stands in front of producers of which a marker may have been seen."""

_LEAD = struct.Struct("<q")
_PRODUCER = struct.Struct("<qhiqB")
_MARKER = struct.Struct("<iqq")
_BATCH = struct.Struct("<iiqqq")


class ProducedBatch(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class StoredProducer(NamedTuple):
    """One producer; for what there is not, NOTHING."""

    producer_id: int
    epoch: int
    expected_sequence: int
    last_append_ms: int
    batches: tuple[ProducedBatch, ...] = ()
    coordinator_epoch: int = NOTHING
    marker_offset: int = NOTHING
    marker_timestamp: int = NOTHING


def encode_producers(producers: Iterable[StoredProducer]) -> bytes:
    """The bytes of producers."""
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
    """The producers of a snapshot.

    Raises:
        struct.error: the bytes end within one.
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
