"""The memory budget for large frames that are still arriving, over all connections of a server.

Counterpart in Kafka: `NetworkReceive`.
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
"""Bytes of the arriving large frames of all connections."""
BYTES_PER_SECOND_MIN: Final = 256 * 1024
"""Minimum rate of a frame that holds memory while other frames wait for memory."""
RATE_WINDOW_SECONDS: Final = 5.0
"""Time over which the rate of a frame is measured."""


class FrameHolder(Protocol):
    def resume(self, reason: MuteReason) -> bool:
        """Remove `reason`, because the frame has the memory it waited for; return whether reading continues."""

    def close(self) -> None: ...


@attrs.define(eq=False)
class PartialFrame:
    """A large frame that is arriving.

    Attributes:
        holder: connection of the frame.
        reader: collects the frame.
        mute: reasons for which its connection is not read.
        bytes_held: memory granted to the frame.
        bytes_wanted: memory that it waits for, including `bytes_held`.
    """

    holder: FrameHolder
    reader: FrameReader
    mute: Mute
    bytes_held: int = 0
    bytes_wanted: int = 0
    _window_began: float | None = None
    _window_bytes: int = 0

    def is_slow(self, now: float) -> bool:
        """Return whether the frame arrived more slowly than BYTES_PER_SECOND_MIN in the window that ends at `now`.

        False before the window has lasted RATE_WINDOW_SECONDS, and while the server itself mutes the connection. A
        window that was fast enough, or a mute, starts a new one.
        """
        received_bytes = self.reader.buffered_bytes
        # A client that does not read its responses causes UNSENT_BYTES itself; the server causes every other mute.
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
        self._window_began = None


class PartialFrameStatistics(NamedTuple):
    """Statistics of the budget.

    Attributes:
        bytes_held: memory granted to frames.
        bytes_max: see PartialFrameBudget.
        frames: frames with memory.
        waiting: frames that wait for memory.
        closed: connections closed because their frame was slow while others waited.
    """

    bytes_held: int = 0
    bytes_max: int = 0
    frames: int = 0
    waiting: int = 0
    closed: int = 0


class PartialFrameBudget:
    """The memory for large frames, granted before their buffers grow.

    A frame above `stages.frames.LARGE_FRAME_BYTES` keeps its memory until it becomes a request or its connection ends.
    Waiting frames are served first come, first served. While frames wait, the others must arrive at
    BYTES_PER_SECOND_MIN or faster.

    Invariant: the oldest frame with memory never waits. So frames that each hold a part cannot block each other, and
    all frames together hold at most `bytes_max` and one frame more.

    Args:
        bytes_max: memory of all frames but the oldest.
        contended: called when a frame starts to wait and no other one does.
    """

    def __init__(self, bytes_max: int = PARTIAL_BYTES_MAX, contended: Callable[[], object] = lambda: None) -> None:
        self._bytes_max = bytes_max
        self._contended = contended
        self._bytes_held = self._closed = 0
        self._frames: dict[PartialFrame, None] = {}  # with memory, the oldest first
        self._line: dict[PartialFrame, None] = {}

    @property
    def is_contended(self) -> bool:
        return bool(self._line)

    def take(self, frame: PartialFrame, size_bytes: int) -> bool:
        """Grant a frame `size_bytes` in total; return False if it must wait until its holder is resumed."""
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
            # Only bytes that arrive while others wait count for the rate.
            for holding in self._frames:
                holding.forget_rate()
            self._contended()
        return False

    def release(self, frame: PartialFrame) -> None:
        """Take back the memory of a frame that became a request or whose connection ends, and serve waiting frames."""
        self._line.pop(frame, None)
        self._frames.pop(frame, None)
        self._bytes_held -= frame.bytes_held
        self._serve_line()

    def set_bytes_max(self, bytes_max: int) -> None:
        """Change the bound; frames keep the memory they have."""
        self._bytes_max = bytes_max
        self._serve_line()

    def slow_holders(self, now: float) -> list[FrameHolder]:
        """Return and count the connections to close now, because their frames arrive too slowly while others wait.

        Call this about once a second while `is_contended`; otherwise the list is empty.
        """
        if not self._line:
            return []
        # Frames that wait are not read, so they cannot be slow.
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
        """Grant memory to the oldest frame if it waits, then to waiting frames in order while the bound allows it."""
        while self._line:
            frame = next(iter(self._frames), None)
            if frame not in self._line:
                is_first = frame is None  # it becomes the oldest frame with memory
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
