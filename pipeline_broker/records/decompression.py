"""Decompression of record batches: accepts what Apache Kafka's Java client can read, and nothing else.

So the framing is read here, like Kafka's `KafkaLZ4BlockInputStream`, `SnappyInputStream`, `GZIPInputStream` and
`ZstdInputStreamNoFinalizer` read it. Each of them ignores other bytes after the data. The library only unpacks the
content of frames.

The caller limits the output before memory is allocated. Buffers grow with the output that was produced, never because
of a size that the input declares. Every failure is a RecordError.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import count
from typing import Final

import cramjam

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.records.compression import XERIAL_HEADER_SIZE, XERIAL_MAGIC, Compression
from pipeline_broker.records.errors import BatchTooLarge, InvalidRecord, UnknownCompression, UnreadableCompression

# Large enough for any honest batch of the default max.message.bytes, and small enough to make a decompression bomb
# harmless: the walk over that many tiny records must not delay other clients for long.
DECOMPRESSED_SIZE_MAX: Final = 32 * 1024 * 1024
# Limit of the blocks, frames or members of a batch. Each costs as much time as unpacking PIECE_BYTES bytes.
PIECE_BYTES: Final = 1024
PIECES_MIN: Final = 256

# With a smaller factor, one of the buffers could have half of the maximum size. glibc does not return the memory of
# such a buffer to the system, but keeps it until a larger one is needed.
_GROWTH: Final = 16
_OUTPUT_SIZE_START: Final = 16 * 1024
_OUTPUT_FULL: Final = "failed to write whole buffer"  # cramjam's message if the output buffer is too small


def decompress(codec: int, data: Buffer, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Return the decompressed data.

    Raises:
        RecordError: the codec is unknown, the data is damaged, or it is larger than `size_max` bytes when decompressed.
    """
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        return _decompress_gzip(bytes(data), size_max)
    if codec == Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), size_max)
    if codec == Compression.LZ4:
        return _decompress_bounded(cramjam.lz4.decompress_into, _plain_lz4_frame(memoryview(data), size_max), size_max)
    if codec == Compression.ZSTD:
        return _decompress_zstd(data, size_max)
    raise UnknownCompression(f"unknown compression id {codec}")


def decompress_stored(codec: int, data: Buffer, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Like `decompress`, but also read LZ4 that earlier versions of this broker accepted and Kafka does not."""
    try:
        # Stored batches must stay readable, although new ones like them are refused.
        return decompress(codec, data, size_max)
    except UnreadableCompression:
        if codec != Compression.LZ4:
            raise
    return _decompress_bounded(cramjam.lz4.decompress_into, data, size_max)


def _decompress_bounded(into: Callable[[Buffer, memoryview], int], data: Buffer, size_max: int) -> bytes:
    size = min(size_max, max(_OUTPUT_SIZE_START, len(data) * _GROWTH))
    while True:
        try:
            return _unpacked(into, data, size)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise UnreadableCompression(f"compressed records cannot be read: {error}") from None
            if size == size_max:
                raise _too_large(size_max) from None
            size = min(size_max, size * _GROWTH)


def _unpacked(into: Callable[[Buffer, memoryview], int], data: Buffer, size: int) -> bytes:
    output = BytesIO(bytes(size))  # its content need not be copied, and the system allocates only pages in use
    try:
        with output.getbuffer() as view:
            written = into(data, view)
        output.truncate(written)
        return output.getvalue()
    finally:
        output.close()  # else the traceback of an error would keep the memory


class _Output:
    """Data that is unpacked piece by piece.

    Attributes:
        size_bytes: of all pieces.
    """

    def __init__(self, size_max: int) -> None:
        self.size_bytes = 0
        self._size_max = size_max
        self._file = BytesIO()

    def append(self, piece: bytes) -> None:
        start, self.size_bytes = self.size_bytes, self.size_bytes + len(piece)
        if self.size_bytes > self._size_max:
            raise _too_large(self._size_max)
        if start <= self._size_max // _GROWTH < self.size_bytes:
            before, self._file = self._file, BytesIO(bytes(self._size_max))
            self._file.write(before.getvalue())
        self._file.write(piece)

    def checksum(self, start: int) -> int:
        with self._file.getbuffer() as view:
            return zlib.crc32(view[start : self.size_bytes])

    def content(self) -> bytes:
        self._file.truncate()
        return self._file.getvalue()


def _too_large(size_max: int) -> BatchTooLarge:
    return BatchTooLarge(f"records are larger than {size_max} bytes when decompressed")


def _check_pieces(number: int, size_max: int) -> None:
    if number > PIECES_MIN + size_max // PIECE_BYTES:
        raise BatchTooLarge(f"compressed records have more than {number - 1} blocks, frames or members")


# gzip (RFC 1952)

_GZIP_HEADER: Final = struct.Struct("<HBB6x")
_GZIP_MAGIC: Final = 0x8B1F
_DEFLATE: Final = 8
_HEADER_CRC, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
_GZIP_TRAILER: Final = struct.Struct("<II")
_MEMBER_BYTES_MIN: Final = 18  # Java looks for another member only if more bytes than this follow a trailer
_FEED_BYTES: Final = 16 * 1024  # zlib copies the rest of its input after a member, so feed small pieces
_INFLATED_BYTES: Final = 256 * 1024  # unpacked at a time; zlib would hold a larger piece twice


def _decompress_gzip(data: bytes, size_max: int) -> bytes:
    output = _Output(size_max)
    try:
        position = _gzip_header_end(data, 0)
    except (ValueError, IndexError, struct.error) as error:
        raise UnreadableCompression(f"the gzip header cannot be read: {error}") from None
    members = 0
    while True:
        members += 1
        _check_pieces(members, size_max)
        start = output.size_bytes
        position = _inflate(data, position, output)
        if position + _GZIP_TRAILER.size > len(data):
            raise UnreadableCompression("the gzip trailer is cut off")
        trailer = (output.checksum(start), output.size_bytes - start & 0xFFFFFFFF)
        if _GZIP_TRAILER.unpack_from(data, position) != trailer:
            raise UnreadableCompression("the checksum or the size in the gzip trailer is wrong")
        position += _GZIP_TRAILER.size
        if len(data) - position <= _MEMBER_BYTES_MIN:
            break
        try:
            position = _gzip_header_end(data, position)
        # Like Java, ignore bytes after a member if they are not the header of another one.
        except (ValueError, IndexError, struct.error):
            break
    return output.content()


def _gzip_header_end(data: bytes, start: int) -> int:
    """Return the end of a member's header.

    Raises:
        ValueError, IndexError, struct.error: the header is not valid gzip, or is incomplete.
    """
    magic, method, flags = _GZIP_HEADER.unpack_from(data, start)
    if magic != _GZIP_MAGIC or method != _DEFLATE:
        raise ValueError("the data is not gzip")
    position = start + _GZIP_HEADER.size
    if flags & _EXTRA:
        position += 2 + int(struct.unpack_from("<H", data, position)[0])
    for field in (_NAME, _COMMENT):
        if flags & field:
            position = data.index(b"\0", position) + 1
    if flags & _HEADER_CRC:
        (checksum,) = struct.unpack_from("<H", data, position)
        if checksum != zlib.crc32(data[start:position]) & 0xFFFF:
            raise ValueError("its checksum is wrong")
        position += 2
    if position > len(data):
        raise ValueError("it is cut off")
    return position


def _inflate(data: bytes, position: int, output: _Output) -> int:
    """Append the content of a member to `output`; return the end of the member."""
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    rest: Buffer = b""
    is_full = False  # True: zlib may hold more output of the input that it has consumed
    try:
        while not inflater.eof:
            if not rest and not is_full:
                rest = data[position : position + _FEED_BYTES]
                position += len(rest)
                if not rest:
                    raise UnreadableCompression("the gzip data is cut off")
            piece = inflater.decompress(rest, _INFLATED_BYTES)
            is_full = len(piece) == _INFLATED_BYTES
            output.append(piece)
            rest = inflater.unconsumed_tail
    except zlib.error as error:
        raise UnreadableCompression(f"compressed records cannot be read: {error}") from None
    return position - len(inflater.unused_data)


# Snappy: blocks in xerial's framing, or one raw block (librdkafka, older clients)

_BLOCK_LENGTH: Final = struct.Struct(">i")
_XERIAL_MAGIC_HEAD: Final = _BLOCK_LENGTH.unpack(XERIAL_MAGIC[:4])[0]
# A raw snappy element of 3 bytes yields at most 64 bytes, so a block cannot hold more than this ratio. Without this
# check a few bytes could make the broker allocate a buffer of the maximum size.
_SNAPPY_RATIO_MAX: Final = 22


def _decompress_snappy(view: memoryview, size_max: int) -> bytes:
    if len(view) < XERIAL_HEADER_SIZE or bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decompress_raw_block(view, size_max)
    output = _Output(size_max)
    position, pieces = XERIAL_HEADER_SIZE, 0
    # A further xerial header may follow, when streams were concatenated. Up to three bytes at the end are ignored.
    while position + _BLOCK_LENGTH.size <= len(view):
        pieces += 1
        _check_pieces(pieces, size_max)
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        if length == _XERIAL_MAGIC_HEAD:
            _check_xerial_header(view[position : position + XERIAL_HEADER_SIZE])
            position += XERIAL_HEADER_SIZE
            continue
        position += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - position:
            raise UnreadableCompression("a snappy block is longer than the rest of the data")
        part = _decompress_raw_block(view[position : position + length], size_max - output.size_bytes)
        output.append(part)
        position += length
    return output.content()


def _check_xerial_header(header: memoryview) -> None:
    if len(header) < XERIAL_HEADER_SIZE:
        raise UnreadableCompression("the header of another snappy stream is cut off")
    if bytes(header[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        raise InvalidRecord("snappy blocks are followed by other data")


def _decompress_raw_block(block: memoryview, size_max: int) -> bytes:
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
        if size > size_max:
            raise _too_large(size_max)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise UnreadableCompression("a snappy block declares more data than it can hold")
        return _unpacked(cramjam.snappy.decompress_raw_into, block, size)
    except cramjam.DecompressionError as error:
        raise UnreadableCompression(f"compressed records cannot be read: {error}") from None


# LZ4 frames (https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md)

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
# Mask and required value of the flags, as Kafka's reader checks them: version 1, independent blocks, reserved bit 0, no
# dictionary.
_LZ4_FIXED: Final = 0b1110_0011, 0b0110_0000
_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 16, 8, 4
_LZ4_BLOCK_SIZES: Final = {code << 4: 1 << (8 + 2 * code) for code in range(4, 8)}
_LZ4_WORD: Final = struct.Struct("<I")
_LZ4_STORED: Final = 1 << 31
_LZ4_END_MARK: Final = bytes(4)
_LZ4_EMPTY_BELOW: Final = 16  # a block of one byte below this value has no literals, so it is empty


def _plain_lz4_frame(data: memoryview, size_max: int) -> Buffer:
    """Return the first frame without the parts that Kafka ignores: content size, content checksum, and later bytes."""
    if len(data) < len(_LZ4_MAGIC) + 3 or bytes(data[: len(_LZ4_MAGIC)]) != _LZ4_MAGIC:
        raise UnreadableCompression("the data does not begin with an LZ4 frame")
    flags, block_size_max = data[4], _LZ4_BLOCK_SIZES.get(data[5])
    mask, wanted = _LZ4_FIXED
    if flags & mask != wanted or block_size_max is None:
        raise UnreadableCompression("the LZ4 frame has features that Kafka does not read, such as dependent blocks")
    blocks_start = 15 if flags & _CONTENT_SIZE else 7
    if len(data) < blocks_start or data[blocks_start - 1] != _lz4_header_checksum(data[4 : blocks_start - 1]):
        raise UnreadableCompression("the header of the LZ4 frame is damaged")
    blocks_end = _lz4_blocks_end(data, blocks_start, flags, block_size_max, size_max)
    plain = bytes((flags & ~(_CONTENT_SIZE | _CONTENT_CHECKSUM), data[5]))
    header = _LZ4_MAGIC + plain + bytes((_lz4_header_checksum(plain),))
    return b"".join((header, data[blocks_start:blocks_end], _LZ4_END_MARK))


def _lz4_blocks_end(data: memoryview, position: int, flags: int, block_size_max: int, size_max: int) -> int:
    """Return the position of the end mark, or of the first empty block, after which Kafka's consumer stops reading."""
    checksum_size = _LZ4_WORD.size if flags & _BLOCK_CHECKSUM else 0
    end, blocks = len(data), 0
    while position + _LZ4_WORD.size <= end:
        (length,) = _LZ4_WORD.unpack_from(data, position)
        size = length & ~_LZ4_STORED
        after = position + _LZ4_WORD.size + size + checksum_size
        if not size:
            if flags & _CONTENT_CHECKSUM and after - checksum_size + _LZ4_WORD.size > end:
                break
            return position
        if size > block_size_max or after > end:
            break
        if length == 1 and data[position + _LZ4_WORD.size] < _LZ4_EMPTY_BELOW:
            return position
        position = after
        blocks += 1
        _check_pieces(blocks, size_max)
    raise UnreadableCompression("a block of the LZ4 frame is too large, or the frame is cut off")


def _lz4_header_checksum(descriptor: Buffer) -> int:
    # the second byte of XXH32, of up to 15 bytes
    prime_1, prime_2, prime_3, prime_4, prime_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    value = prime_5 + len(descriptor)
    whole = len(descriptor) & ~3
    for position in range(0, whole, 4):
        value = _rotated(value + int.from_bytes(descriptor[position : position + 4], "little") * prime_3, 17) * prime_4
    for byte in descriptor[whole:]:
        value = _rotated(value + byte * prime_5, 11) * prime_1
    value &= 0xFFFFFFFF
    value = (value ^ value >> 15) * prime_2 & 0xFFFFFFFF
    value = (value ^ value >> 13) * prime_3 & 0xFFFFFFFF
    return (value ^ value >> 16) >> 8 & 0xFF


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF


# Zstandard (RFC 8878)

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)
_ZSTD_WINDOW_LOG_MAX: Final = 27  # the default of libzstd: 128 MiB
# Kafka reads into a buffer of this size. A frame that declares no more content is unpacked without a window there.
_ZSTD_ONE_GO_BYTES_MAX: Final = 16 * 1024
# Size of the reads of zstd-jni. It ignores a frame that is cut off if the previous frame ends in the same read.
_ZSTD_SOURCE_BYTES: Final = 131_075
_ZSTD_CUT_OFF: Final = "incomplete frame"  # cramjam's message
_CONTENT_SIZE_BYTES: Final = 0, 2, 4, 8
_DICTIONARY_ID_BYTES: Final = 0, 1, 2, 4
_SKIPPABLE_HEADER: Final = struct.Struct("<II")
_ZSTD_BLOCK_HEADER_SIZE: Final = 3
_RAW_BLOCK, _RUN_BLOCK = 0, 1


def _decompress_zstd(data: Buffer, size_max: int) -> bytes:
    if not len(data):
        return b""  # like Kafka; the other codecs require a header
    data = _with_small_window(data)
    try:
        return _decompress_bounded(cramjam.zstd.decompress_into, data, size_max)
    except UnreadableCompression as error:
        end = _last_zstd_frame_end(memoryview(data), size_max) if _ZSTD_CUT_OFF in error.message else 0
        if not end % _ZSTD_SOURCE_BYTES or end // _ZSTD_SOURCE_BYTES != (len(data) - 1) // _ZSTD_SOURCE_BYTES:
            raise
    return _decompress_bounded(cramjam.zstd.decompress_into, memoryview(data)[:end], size_max)


def _with_small_window(data: Buffer) -> Buffer:
    """Return the data, with a smaller window in the first frame if the declared one is too large and not needed.

    A frame with little content needs no window, so its window is replaced by the largest one that decoders promise to
    hold.

    Raises:
        UnreadableCompression: the window is too large, and the frame needs it.
    """
    if len(data) < 6 or bytes(data[:4]) != _ZSTD_MAGIC or data[4] & 0x20 or data[5] >> 3 <= _ZSTD_WINDOW_LOG_MAX - 10:
        return data  # the decoder reports everything else that is wrong
    header_size, content_size = _zstd_header(memoryview(data), 0)
    if content_size is None or content_size > _ZSTD_ONE_GO_BYTES_MAX or header_size > len(data):
        raise UnreadableCompression(f"the zstd frame needs a window above {1 << _ZSTD_WINDOW_LOG_MAX} bytes")
    return b"".join((data[:5], bytes(((_ZSTD_WINDOW_LOG_MAX - 10) << 3,)), data[6:]))


def _zstd_header(data: memoryview, start: int) -> tuple[int, int | None]:
    """Return the size of a frame's header, and the size of its content if the header declares it."""
    descriptor = data[start + 4]
    is_single = descriptor >> 5 & 1
    before = 5 + (not is_single) + _DICTIONARY_ID_BYTES[descriptor & 3]
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6] or is_single
    if not size_bytes:
        return before, None
    content_size = int.from_bytes(data[start + before : start + before + size_bytes], "little")
    return before + size_bytes, content_size + (256 if size_bytes == 2 else 0)


def _last_zstd_frame_end(data: memoryview, size_max: int) -> int:
    """Return the end of the last complete frame; 0 if no frame is complete, or a frame that is cut off has content."""
    last, pieces = 0, count(1)
    while True:
        end, has_content = _zstd_frame_end(data, last, pieces, size_max)
        if end > len(data):
            return 0 if has_content else last
        last = end


def _zstd_frame_end(data: memoryview, position: int, pieces: Iterator[int], size_max: int) -> tuple[int, bool]:
    """Return the end of a frame, and whether some of its content is present.

    The end of a frame that is cut off lies beyond the data.
    """
    beyond, has_content = len(data) + 1, False
    if position + _SKIPPABLE_HEADER.size > len(data):
        return beyond, False
    magic, size = _SKIPPABLE_HEADER.unpack_from(data, position)
    _check_pieces(next(pieces), size_max)
    if magic in _SKIPPABLE:
        return position + _SKIPPABLE_HEADER.size + size, False
    checksum_size = data[position + 4] & 4
    position += _zstd_header(data, position)[0]
    while position + _ZSTD_BLOCK_HEADER_SIZE <= len(data):
        header = int.from_bytes(data[position : position + _ZSTD_BLOCK_HEADER_SIZE], "little")
        position += _ZSTD_BLOCK_HEADER_SIZE
        is_last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == _RUN_BLOCK:
            size = 1
        available = min(size, len(data) - position)
        has_content |= available > 0 and (available == size or kind == _RAW_BLOCK)
        position += size
        _check_pieces(next(pieces), size_max)
        if is_last:
            return position + checksum_size, has_content
    return beyond, has_content
