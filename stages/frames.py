"""Length-prefixed frames: a parser of received bytes, and framing of responses.

A frame is a signed 32-bit big-endian length and that many bytes. Memory grows with the bytes that arrive, to at most
twice their number, never with a declared length. A server that trusts lengths runs out of memory when 300 connections
declare 100 MB each.

Counterpart in Kafka: `NetworkReceive`; frames above 64 KiB share a memory bound while they arrive.
"""

import struct
from typing import Final

from stages.file_range import FileRange
from stages.request import Buffer, Part, Send

__all__ = ["LENGTH_BYTES", "FrameReader", "InvalidFrameError", "frame_of"]

LENGTH_BYTES: Final = 4
LARGE_FRAME_BYTES: Final = 64 * 1024
"""Size above which a frame gets a buffer of its own, into which the transport receives directly."""
GROWTH_BYTES_MIN: Final = 64 * 1024
GROWTH_BYTES_MAX: Final = 1024 * 1024

# Buffers grow by copying these zeros, which is faster than creating new ones for each growth.
_zeros: Final = memoryview(bytes(GROWTH_BYTES_MAX))
_length: Final = struct.Struct(">i")
_unpack_length_from: Final = _length.unpack_from
_pack_length: Final = _length.pack


class InvalidFrameError(Exception):
    """The client declared a negative or too large length, so later bytes cannot be parsed."""


def frame_of(send: Send) -> tuple[tuple[Part, ...], int]:
    """Return the parts of a response, beginning with its 4-byte length, and the total number of bytes."""
    parts = send.parts
    if len(parts) == 1:
        part = parts[0]
        size = len(part)
        # Copying a small response is cheaper than sending one more part.
        if size <= GROWTH_BYTES_MIN and type(part) is not FileRange:
            return (_pack_length(size) + part,), size + LENGTH_BYTES
        return (_pack_length(size), part), size + LENGTH_BYTES
    size = sum(map(len, parts))
    return (_pack_length(size), *parts), size + LENGTH_BYTES


class FrameReader:
    """A parser of received bytes into frames; sans-IO.

    After InvalidFrameError, `next_frame` raises it again on every call.

    Args:
        frame_bytes_max: largest accepted length (`socket.request.max.bytes`).

    Attributes:
        collects_large: whether a frame above LARGE_FRAME_BYTES has begun and `next_frame` has not returned it.
    """

    __slots__ = ("_data", "_filled", "_invalid", "_large", "_position", "_size", "collects_large", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.collects_large = False
        self._data = b""
        self._position = 0
        self._large: bytearray | None = None
        self._filled = 0
        self._size: int  # of the large frame; unset until one begins
        self._invalid: InvalidFrameError | None = None

    @property
    def buffered_bytes(self) -> int:
        return len(self._data) - self._position + self._filled

    def abandon(self) -> None:
        self._data = b""
        self._large = None
        self.collects_large = False
        self._position, self._filled = 0, 0

    @property
    def large_buffer_bytes(self) -> int:
        """Size of the large frame's buffer after the next `large_frame_room`; 0 without a large frame."""
        large = self._large
        if large is None:
            return 0
        size_bytes = len(large)
        if self._filled < size_bytes:
            return size_bytes
        return min(size_bytes + min(max(GROWTH_BYTES_MIN, size_bytes), GROWTH_BYTES_MAX), self._size)

    def large_frame_room(self) -> memoryview | None:
        """Return the free part of the large frame's buffer, growing the buffer if it is full.

        After receiving into it, call `received`. Returns None without an incomplete large frame; then use
        `receive_data`.
        """
        large = self._large
        if large is None or self._filled == self._size:
            return None
        if self._filled == len(large):
            large += _zeros[: self.large_buffer_bytes - self._filled]
        return memoryview(large)[self._filled :]

    def received(self, count: int) -> None:
        """Record that `count` bytes were received into `large_frame_room`."""
        self._filled += count

    def receive_data(self, data: bytes) -> None:
        large = self._large
        if large is not None:
            missing = self._size - self._filled
            # The buffer may have grown by zeros that were not received into.
            del large[self._filled :]
            large += data[:missing]
            self._filled += min(missing, len(data))
            data = data[missing:]
            if not data:
                return
        if self._position < len(self._data):
            self._data = self._data[self._position :] + data
        else:
            self._data = data
        self._position = 0

    def next_frame(self) -> Buffer | None:
        """Return the next complete frame without its length, or None if more bytes are needed.

        Raises:
            InvalidFrameError: if the declared length is negative or above `frame_bytes_max`.
        """
        large = self._large
        if large is not None:
            if self._filled < self._size:
                return None
            self._large = None
            self.collects_large = False
            self._filled = 0
            # Not `bytes`, which would copy a large frame.
            return memoryview(large)
        if self._invalid is not None:
            raise self._invalid
        data = self._data
        start = self._position + LENGTH_BYTES
        if start > len(data):
            return None
        size: int = _unpack_length_from(data, self._position)[0]
        if not 0 <= size <= self.frame_bytes_max:
            self._invalid = InvalidFrameError(f"a frame declares {size} bytes; allowed are 0 to {self.frame_bytes_max}")
            self._data = b""
            self._position = 0
            raise self._invalid
        end = start + size
        if end <= len(data):
            self._position = end
            return data[start:end]
        if size > LARGE_FRAME_BYTES:
            self._large = bytearray(data[start:])
            self.collects_large = True
            self._filled = len(data) - start
            self._size = size
            self._data = b""
            self._position = 0
        return None
