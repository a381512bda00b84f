"""Compression of record batches with gzip, snappy, lz4 and zstd; `decompression` is the reverse.

The output is readable by Kafka's Java client: snappy with xerial framing, lz4 frames with independent blocks and no
content checksum.
"""

import struct
from enum import IntEnum
from typing import Final

import cramjam

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.errors import UnknownCompression


class Compression(IntEnum):
    """The codec ids in bits 0-2 of the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_name(number: int) -> str:
    try:
        return Compression(number).name.lower()
    except ValueError:
        return f"codec {number}"


XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
XERIAL_HEADER_SIZE: Final = len(_XERIAL_HEADER)
_BLOCK_LENGTH: Final = struct.Struct(">i")

LEVEL_DEFAULTS: Final = {Compression.GZIP: 6, Compression.LZ4: 9, Compression.ZSTD: 3}
"""Kafka's default levels of the codecs that have levels."""
_LZ4_FAST: Final = 0
_LZ4_HIGH_LEVELS: Final = 3, 12  # levels of the library; Kafka's range of 1 to 17 is clamped to it


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress the data with the framing that Kafka clients expect.

    Args:
        codec: a `Compression`.
        data: the encoded records.
        level: a level of the codec, numbered like Kafka's; None for Kafka's default.

    Raises:
        UnknownCompression: no codec has this id.
    """
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=LEVEL_DEFAULTS[Compression.GZIP] if level is None else level))
    if codec == Compression.SNAPPY:
        return _compress_xerial(data)
    if codec == Compression.LZ4:
        compressor = cramjam.lz4.Compressor(level=_lz4_level(level), content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))  # unlike cramjam's functions, it accepts only bytes
        return bytes(compressor.finish())
    if codec == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=LEVEL_DEFAULTS[Compression.ZSTD] if level is None else level))
    raise UnknownCompression(f"unknown compression id {codec}")


def _lz4_level(level: int | None) -> int:
    # Like Kafka: the default level is the fast compressor, all others are high compression.
    if level is None or level == LEVEL_DEFAULTS[Compression.LZ4]:
        return _LZ4_FAST
    low, high = _LZ4_HIGH_LEVELS
    return min(max(level, low), high)


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    # Like Kafka's Java client: each raw block is preceded by its length.
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)
