"""The four compression codecs of record batches, as they are written; `decompression` reads them.

Rules of this file: what is written can be read by Kafka's Java client (snappy in xerial framing, lz4 frames with
independent blocks, no content checksum).
"""

import struct
from enum import IntEnum
from typing import Final

import cramjam

from pipeline_broker.records.errors import UnknownCompression

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The ids in bits 0-2 of the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_name(number: int) -> str:
    """What people call a codec."""
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
"""Of codecs that have levels, as Kafka numbers them."""
_LZ4_FAST: Final = 0
_LZ4_HIGH_LEVELS: Final = 3, 12
"""What the library knows; below and above it Kafka's levels, 1 to 17, do what the nearest of these does."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The data in the framing Kafka clients expect for this codec; levels are Kafka's, None is its default."""
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=LEVEL_DEFAULTS[Compression.GZIP] if level is None else level))
    if codec == Compression.SNAPPY:
        return _compress_xerial(data)
    if codec == Compression.LZ4:
        compressor = cramjam.lz4.Compressor(level=_lz4_level(level), content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))  # unlike the functions, it takes bytes only
        return bytes(compressor.finish())
    if codec == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=LEVEL_DEFAULTS[Compression.ZSTD] if level is None else level))
    raise UnknownCompression(f"unknown compression id {codec}")


def _lz4_level(level: int | None) -> int:
    """As Kafka: its default is the fast compressor, every other level one of the thorough ones."""
    if level is None or level == LEVEL_DEFAULTS[Compression.LZ4]:
        return _LZ4_FAST
    low, high = _LZ4_HIGH_LEVELS
    return min(max(level, low), high)


def _compress_xerial(data: Buffer) -> bytes:
    """Raw snappy blocks, each with its length, behind a 16-byte header (what Kafka's Java client writes)."""
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)
