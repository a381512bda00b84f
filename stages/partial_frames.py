"""Memory for large frames that are still arriving: one budget over all connections of a server.

Rules of this room: sans-IO, time is passed in. A frame above LARGE_FRAME_BYTES takes room before its buffer grows, and
keeps the room until it becomes a request or its connection ends. Frames that find no room stand in line, first come,
first served. The eldest frame that holds room never waits: frames that each hold a part cannot block each other, and
all frames together stay within `bytes_max` and one frame more. While the line is not empty, a frame must arrive at
BYTES_PER_SECOND_MIN or faster; a slower one has to give its room back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import attrs

from stages.frames import FrameReader
from stages.mute import Mute, MuteReason

__all__ = [
    "BYTES_PER_SECOND_MIN",
    "PARTIAL_BYTES_MAX",
    "RATE_WINDOW_SECONDS",
    "FrameHolder",
    "PartialFrame",
    "PartialFrameBudget",
    "PartialFrameStatistics",
]

PARTIAL_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of the large frames of all connections that are still arriving."""
BYTES_PER_SECOND_MIN: Final = 256 * 1024
"""How fast a frame that holds room must arrive while others wait for room."""
RATE_WINDOW_SECONDS: Final = 5.0
"""How long the rate of a frame is measured before it is judged."""


class FrameHolder(Protocol):
    """A connection that receives a large frame."""

    def resume(self, reason: MuteReason) -> bool:
        """Read on: the frame has the room that it asked for."""

    def close(self) -> None:
        """Close now."""


@attrs.define(eq=False)
class PartialFrame:
    """One large frame that is arriving.

    Attributes:
        reader: collects the frame.
        mute: why the connection is not read.
        bytes_held: room that the frame has.
        bytes_wanted: room that it waits for, all that it needs then included.
    """

    holder: FrameHolder
    reader: FrameReader
    mute: Mute
    bytes_held: int = 0
    bytes_wanted: int = 0
    _window_began: float | None = None
    _window_bytes: int = 0

    def is_slow(self, now: float) -> bool:
        """Whether it arrived too slowly in a window that ends now."""
        received_bytes = self.reader.buffered_bytes
        # A client that does not take its responses holds itself up; every other mute is the server's.
        if not self.mute.reasons <= {MuteReason.UNSENT_BYTES}:
            self.forget_rate()
            return False
        if self._window_began is not None:
            seconds = now - self._window_began
            if seconds < RATE_WINDOW_SECONDS:
                return False
            if received_bytes - self._window_bytes < seconds * BYTES_PER_SECOND_MIN:
                return True
        self._window_began, self._window_bytes = now, received_bytes
        return False

    def forget_rate(self) -> None:
        """Measure from the next look on."""
        self._window_began = None


class PartialFrameStatistics(NamedTuple):
    """The budget as it stands.

    Attributes:
        bytes_held: room that frames have.
        bytes_max: see PartialFrameBudget.
        frames: frames that have room.
        waiting: frames that stand in line.
        closed: connections that lost their room, and ended, because others waited.
    """

    bytes_held: int = 0
    bytes_max: int = 0
    frames: int = 0
    waiting: int = 0
    closed: int = 0


class PartialFrameBudget:
    """See the rules of the room.

    Args:
        bytes_max: room of all frames but the eldest.
        contended: called when a frame begins to wait and no other one did.
    """

    def __init__(self, bytes_max: int = PARTIAL_BYTES_MAX, contended: Callable[[], object] = lambda: None) -> None:
        self._bytes_max = bytes_max
        self._contended = contended
        self._bytes_held = self._closed = 0
        self._frames: dict[PartialFrame, None] = {}  # that have room, the eldest first
        self._line: dict[PartialFrame, None] = {}

    @property
    def is_contended(self) -> bool:
        """Whether a frame waits for room."""
        return bool(self._line)

    def take(self, frame: PartialFrame, size_bytes: int) -> bool:
        """Give a frame room for `size_bytes` in all; False when it must wait until its holder is resumed."""
        if size_bytes <= frame.bytes_held:
            return True
        if frame in self._line:
            return False
        frame.bytes_wanted = size_bytes
        if self._is_eldest(frame) or (not self._line and self._has_room(frame)):
            self._grant(frame)
            return True
        self._line[frame] = None
        if len(self._line) == 1:
            for holding in self._frames:
                holding.forget_rate()
            self._contended()
        return False

    def release(self, frame: PartialFrame) -> None:
        """Take back what a frame has: it became a request, or its connection ends."""
        self._line.pop(frame, None)
        self._frames.pop(frame, None)
        self._bytes_held -= frame.bytes_held
        self._serve_line()

    def set_bytes_max(self, bytes_max: int) -> None:
        """Change the bound; what frames have already stays theirs."""
        self._bytes_max = bytes_max
        self._serve_line()

    def slow_holders(self, now: float) -> list[FrameHolder]:
        """The connections to close now, because their frames arrive too slowly while others wait for room.

        Call it about once a second while `is_contended`.
        """
        if not self._line:
            return []
        slow = [frame.holder for frame in self._frames if frame not in self._line and frame.is_slow(now)]
        self._closed += len(slow)
        return slow

    def _is_eldest(self, frame: PartialFrame) -> bool:
        return next(iter(self._frames), frame) is frame

    def _has_room(self, frame: PartialFrame) -> bool:
        return self._bytes_held + frame.bytes_wanted - frame.bytes_held <= self._bytes_max

    def _grant(self, frame: PartialFrame) -> None:
        self._bytes_held += frame.bytes_wanted - frame.bytes_held
        frame.bytes_held = frame.bytes_wanted
        frame.forget_rate()
        self._frames[frame] = None

    def _serve_line(self) -> None:
        """Resume the eldest, if it became that while it waited, then the first of the line while there is room."""
        while self._line:
            frame = next(iter(self._frames), None)
            if frame not in self._line:
                is_first = frame is None  # the eldest from here on
                frame = next(iter(self._line))
                if not is_first and not self._has_room(frame):
                    return
            assert frame is not None
            del self._line[frame]
            self._grant(frame)
            frame.holder.resume(MuteReason.PARTIAL_BYTES)

    def statistics(self) -> PartialFrameStatistics:
        return PartialFrameStatistics(
            self._bytes_held, self._bytes_max, len(self._frames), len(self._line), self._closed
        )
