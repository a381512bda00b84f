"""Recompression of a produced batch in the codec of its topic (`compression.type`).

The result is what Apache Kafka writes: the same records, offsets, producer and timestamp type. The first record's
timestamp becomes the base, and flags that only a broker sets are cleared.
"""

from typing import NamedTuple

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.batch import APPEND_TIME_BIT, HEADER_SIZE, TRANSACTIONAL_BIT, BatchHeader, assembled
from pipeline_broker.records.compression import Compression, compress
from pipeline_broker.records.decompression import decompress
from pipeline_broker.records.errors import BatchTooLarge, RecordListTooLarge
from pipeline_broker.records.record_places import append_shifted, record_places

_KEPT = APPEND_TIME_BIT | TRANSACTIONAL_BIT


class Target(NamedTuple):
    """The codec of `compression.type`, and its level; None for Kafka's default level.

    A topic that keeps the producer's codec has no Target.
    """

    codec: Compression
    level: int | None = None


def recompressed(
    header: BatchHeader, batch: Buffer, target: Target, *, size_max: int, segment_size_max: int, unpacked_size_max: int
) -> tuple[BatchHeader, bytes]:
    """Recompress a batch; return the new header and the new batch.

    Args:
        header: the header from `check_batch`.
        batch: the batch that the client sent.
        target: the codec and level of the new batch.
        size_max: limit of the new batch in bytes, `max.message.bytes`.
        segment_size_max: limit of the new batch in bytes, the size of a segment.
        unpacked_size_max: limit of the decompressed records in bytes.

    Raises:
        BatchTooLarge: the new batch is larger than `size_max`, or the decompressed records than `unpacked_size_max`.
        RecordListTooLarge: the new batch is larger than a segment.
    """
    data = decompress(header.compression, memoryview(batch)[HEADER_SIZE : header.size_bytes], unpacked_size_max)
    if target.codec == Compression.NONE:  # the size is known already: fail before the work
        _check_size(HEADER_SIZE + len(data), size_max, segment_size_max)
    # Kafka writes the first record's timestamp as the base, and producers may have chosen another one.
    first_delta = next(record_places(data, 0, len(data)))[3]
    if first_delta:
        shifted = bytearray()
        append_shifted(shifted, data, 0, len(data), -first_delta)
        data = bytes(shifted)
    changed = header._replace(
        attributes=header.attributes & _KEPT | target.codec, base_timestamp=header.base_timestamp + first_delta
    )
    made = assembled(changed, compress(target.codec, data, target.level))
    _check_size(made[0].size_bytes, size_max, segment_size_max)
    return made


def _check_size(size_bytes: int, size_max: int, segment_size_max: int) -> None:
    if size_bytes > size_max:
        raise BatchTooLarge(f"the recompressed batch has {size_bytes} bytes, more than max.message.bytes ({size_max})")
    if size_bytes > segment_size_max:
        raise RecordListTooLarge(f"a batch of {size_bytes} bytes is larger than a segment ({segment_size_max})")
