"""Bytes to length-prefixed frames, and responses to bytes.

Rules of this room: sans-IO. A frame is a signed 32-bit big-endian length and that many bytes: the only assumption about
the wire in this package. A declared length allocates nothing: memory grows with the bytes that arrive, at most to twice
their number (300 connections that each declare 100 MB bring a broker down that trusts them).
"""

import struct
from typing import Final

from stages.request import Buffer, Send

__all__ = ["LENGTH_BYTES", "FrameReader", "InvalidFrameError", "frame_of"]

LENGTH_BYTES: Final = 4
LARGE_FRAME_BYTES: Final = 64 * 1024
"""Frames above this are collected in a buffer of their own, into which the transport receives directly."""
GROWTH_BYTES_MIN: Final = 64 * 1024
GROWTH_BYTES_MAX: Final = 1024 * 1024
"""Zeros that are there already: to make others for each growth takes longer than to copy these."""

_zeros: Final = memoryview(bytes(GROWTH_BYTES_MAX))
_length: Final = struct.Struct(">i")
_unpack_length_from: Final = _length.unpack_from
_pack_length: Final = _length.pack


class InvalidFrameError(Exception):
    """The peer declared a frame that is negative or too large; nothing after it can be understood."""


def frame_of(send: Send) -> tuple[tuple[Buffer, ...], int]:
    """The parts of a response with their length in front.

    Returns:
        the parts and the number of bytes in them.
    """
    parts = send.parts
    if len(parts) == 1:
        part = parts[0]
        size = len(part)
        if size <= GROWTH_BYTES_MIN:
            return (_pack_length(size) + part,), size + LENGTH_BYTES
        return (_pack_length(size), part), size + LENGTH_BYTES
    size = sum(map(len, parts))
    return (_pack_length(size), *parts), size + LENGTH_BYTES


class FrameReader:
    """Cuts received bytes into frames.

    Args:
        frame_bytes_max: the largest length that is accepted (`socket.request.max.bytes`).

    Attributes:
        collects_large: a frame above LARGE_FRAME_BYTES has begun, and `next_frame` did not return it yet.

    After InvalidFrameError the reader raises it for ever.
    """

    __slots__ = ("_data", "_filled", "_invalid", "_large", "_position", "_size", "collects_large", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.collects_large = False
        self._data = b""
        self._position = 0
        self._large: bytearray | None = None
        self._filled = 0
        self._size: int  # of the large frame, while there is one
        self._invalid: InvalidFrameError | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were received and not cut into a frame yet."""
        return len(self._data) - self._position + self._filled

    def abandon(self) -> None:
        """Let go of what was received: nothing more of it is asked for."""
        self._data = b""
        self._large = None
        self.collects_large = False
        self._position, self._filled = 0, 0

    @property
    def large_buffer_bytes(self) -> int:
        """Bytes that the buffer of the large frame has after the next `large_frame_room`, which grows a full one."""
        large = self._large
        if large is None:
            return 0
        size_bytes = len(large)
        if self._filled < size_bytes:
            return size_bytes
        return min(size_bytes + min(max(GROWTH_BYTES_MIN, size_bytes), GROWTH_BYTES_MAX), self._size)

    def large_frame_room(self) -> memoryview | None:
        """Where the transport should receive into, or None when it should call `receive_data`.

        Report what was received by `received`.
        """
        large = self._large
        if large is None or self._filled == self._size:
            return None
        if self._filled == len(large):
            large += _zeros[: self.large_buffer_bytes - self._filled]
        return memoryview(large)[self._filled :]

    def received(self, count: int) -> None:
        """Say that `count` bytes were received into `large_frame_room`."""
        self._filled += count

    def receive_data(self, data: bytes) -> None:
        """Add bytes that were received."""
        large = self._large
        if large is not None:
            missing = self._size - self._filled
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
        """The next complete frame, without its length; None when more bytes are needed.

        Raises:
            InvalidFrameError: the declared length is negative or above the bound.
        """
        large = self._large
        if large is not None:
            if self._filled < self._size:
                return None
            self._large = None
            self.collects_large = False
            self._filled = 0
            return memoryview(large)
        if self._invalid is not None:
            raise self._invalid
        data = self._data
        start = self._position + LENGTH_BYTES
        if start > len(data):
            return None
        size: int = _unpack_length_from(data, self._position)[0]
        if not 0 <= size <= self.frame_bytes_max:
            self._invalid = InvalidFrameError(f"a frame of {size} bytes; the limit is {self.frame_bytes_max}")
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
