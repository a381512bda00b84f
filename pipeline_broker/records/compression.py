"""The four compression codecs of record batches.

Rules of this file: what is written can be read by Kafka's Java client (snappy in xerial framing, lz4 frames with
independent blocks, no content checksum); what is read is bounded by the caller *before* memory is
taken: output grows in steps that are paid for by output actually produced, never by a size that the input declares.
Every failure is a RecordError.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from pipeline_broker.records.errors import BatchTooLarge, UnknownCompression, UnreadableCompression

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


# Large enough for any honest batch of the default max.message.bytes, small enough that a bomb is harmless: what it
# takes to walk over that many records that are all alike is the time nobody else is served.
DECOMPRESSED_SIZE_MAX: Final = 32 * 1024 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")
_GROWTH: Final = 16
"""A smaller one would try a buffer of half the bound; glibc keeps the memory of such a one instead of giving it back,
until the next one needs more."""
_OUTPUT_SIZE_START: Final = 16 * 1024
_OUTPUT_FULL: Final = "failed to write whole buffer"  # cramjam's message when output is larger than the buffer it got
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_LOG_MAX: Final = 27  # as libzstd's own default: 128 MiB


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


def decompress(codec: int, data: Buffer, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """The original data, or a RecordError when it is damaged or larger than `size_max`."""
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        return _decompress_bounded(cramjam.gzip.decompress_into, data, size_max)
    if codec == Compression.SNAPPY:
        return _decompress_snappy(data, size_max)
    if codec == Compression.LZ4:
        return _decompress_bounded(cramjam.lz4.decompress_into, data, size_max)
    if codec == Compression.ZSTD:
        if not len(data):
            return b""  # as Kafka reads it; the other codecs need a header
        _check_zstd_window(data)
        return _decompress_bounded(cramjam.zstd.decompress_into, data, size_max)
    raise UnknownCompression(f"unknown compression id {codec}")


def _decompress_bounded(into: Callable[[Buffer, bytearray], int], data: Buffer, size_max: int) -> bytes:
    """Decompress into a buffer that grows only after the smaller one was filled."""
    size = min(size_max, max(_OUTPUT_SIZE_START, len(data) * _GROWTH))
    while True:
        output = bytearray(size)
        try:
            written = into(data, output)
        except cramjam.DecompressionError as error:
            del output  # the traceback of what is raised, and the next buffer, would keep it
            if _OUTPUT_FULL not in str(error):
                raise UnreadableCompression(f"compressed records cannot be read: {error}") from None
            if size >= size_max:
                raise BatchTooLarge(f"records are larger than {size_max} bytes when decompressed") from None
            size = min(size_max, size * _GROWTH)
            continue
        return bytes(memoryview(output)[:written])


def _check_zstd_window(data: Buffer) -> None:
    """Refuse a frame whose header asks for a window larger than decoders promise to hold."""
    if len(data) < 6 or bytes(data[:4]) != _ZSTD_MAGIC:
        return  # the decoder says what is wrong
    single_segment = data[4] & 0x20
    if not single_segment and 10 + (data[5] >> 3) > _ZSTD_WINDOW_LOG_MAX:
        raise UnreadableCompression("the zstd frame asks for too large a window")


def _compress_xerial(data: Buffer) -> bytes:
    """Raw snappy blocks, each with its length, behind a 16-byte header (what Kafka's Java client writes)."""
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, size_max: int) -> bytes:
    """Xerial framing when its magic is there, one raw block otherwise (librdkafka, older clients)."""
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _decompress_raw_block(view, size_max)
    parts = []
    position, remaining = len(_XERIAL_HEADER), size_max
    if position > len(view):
        raise UnreadableCompression("the snappy header is cut off")
    while position < len(view):
        if position + 4 > len(view):
            raise UnreadableCompression("a snappy block length is cut off")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += 4
        if not 0 < length <= len(view) - position:
            raise UnreadableCompression("a snappy block is longer than the rest of the data")
        part = _decompress_raw_block(view[position : position + length], remaining)
        parts.append(part)
        remaining -= len(part)
        position += length
    return b"".join(parts)


# A raw snappy element of 3 bytes yields at most 64: a block that declares more than this is lying.
_SNAPPY_RATIO_MAX: Final = 22


def _decompress_raw_block(block: memoryview, size_max: int) -> bytes:
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
        if size > size_max:
            raise BatchTooLarge(f"records are larger than {size_max} bytes when decompressed")
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise UnreadableCompression("a snappy block declares more than it can hold")
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise UnreadableCompression(f"compressed records cannot be read: {error}") from None
    return bytes(output)
