"""The output of one connection: released responses as bytes, sent in as few calls as possible.

Counterpart in Kafka: `NetworkSend`, and `waitingSend` of AutoMQ; all released responses of a connection leave with
one send.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import islice
from typing import Final

import trio

from stages.file_range import FileRange
from stages.frames import frame_of
from stages.request import Buffer, Close, Part, Request, Send
from stages.timeline import Timeline, now_ns
from stages.transport_layer import PARTS_MAX, TransportLayer

__all__ = ["ResponseOutput"]

LOADS_MAX: Final = 4
"""Threads that load ranges of files from the disk, for all connections."""

_loads: Final = trio.CapacityLimiter(LOADS_MAX)


class ResponseOutput:
    """The responses of a connection, sent in the order in which they are added.

    Attributes:
        is_blocked: whether the transport takes no more bytes now.
        unsent_bytes: number of bytes that have not left.
    """

    __slots__ = (
        "_cold",
        "_ends",
        "_has_ranges",
        "_output",
        "_sent_bytes",
        "_timeline",
        "_transport",
        "is_blocked",
        "unsent_bytes",
    )

    def __init__(self, transport: TransportLayer, timeline: Timeline | None) -> None:
        self.is_blocked = False
        self._transport = transport
        self._timeline = timeline
        self._output: deque[Part] = deque()
        self._has_ranges = False
        self._cold: FileRange | None = None  # the next bytes are not in memory
        self._ends: deque[tuple[Request, int]] = deque()  # timed requests, and where their response ends
        self.unsent_bytes = 0
        self._sent_bytes = 0

    @property
    def unsent_responses(self) -> int:
        return len(self._ends)

    def observe(self, timeline: Timeline | None) -> None:
        self._timeline = timeline

    def add(self, request: Request) -> int:
        """Append the response of a released request, or the last bytes of a `Close`.

        Returns:
            the size of the response in bytes; 0 without a response, and for a `Close`.

        Raises:
            TypeError: if a part of the response is not bytes.
        """
        result, count = request.result, 0
        if type(result) is Send:
            parts, count = frame_of(result)
            self._output.extend(parts)
            self.unsent_bytes += count
            request.response_bytes = count
            if len(parts) > 1 and not self._has_ranges:
                self._has_ranges = any(type(part) is FileRange for part in parts)
        elif type(result) is Close and result.last_bytes:
            self._output.append(result.last_bytes)
            self.unsent_bytes += len(result.last_bytes)
        if request.enqueued_ns:
            self._ends.append((request, self._sent_bytes + self.unsent_bytes))
        return count

    # For a frame that answers no request.
    def add_frame(self, send: Send) -> None:
        parts, count = frame_of(send)
        self._output.extend(parts)
        self.unsent_bytes += count

    def send(self) -> int:
        """Hand over as many bytes as the transport takes, and return their number; never waits.

        Timed requests are stamped, and reported to the observer once their responses have left.

        Raises:
            BrokenTransportError: if the client has disconnected.
        """
        output, before = self._output, self._sent_bytes
        started_ns = now_ns() if self._ends else 0
        while output:
            # A transport takes at most PARTS_MAX parts in one call.
            parts = tuple(output if len(output) <= PARTS_MAX else islice(output, PARTS_MAX))
            try:
                count = self._send_beside_ranges(parts) if self._has_ranges else self._transport.send(parts)  # type: ignore[arg-type]  # has no ranges
            except BlockingIOError:
                self.is_blocked = True
                break
            if self._cold is not None:
                self.is_blocked = True
                break
            self._sent_bytes += count
            self.unsent_bytes -= count
            self._forget(parts, count)
        if not output:
            self._has_ranges = False
            if self._transport.has_unsent:
                self.is_blocked = True
        if self._ends:
            self._stamp(started_ns)
        return self._sent_bytes - before

    def _send_beside_ranges(self, parts: tuple[Part, ...]) -> int:
        """Send the first part if it is a range, otherwise the bytes before the next range."""
        before: list[Buffer] = []
        for part in parts:
            if type(part) is FileRange:
                if before:
                    break
                count = self._transport.send_range(part)
                if not count:
                    self._cold = part
                return count
            before.append(part)
        return self._transport.send(before, is_continued=len(before) < len(parts))

    def _forget(self, parts: tuple[Part, ...], count: int) -> None:
        output = self._output
        for part in parts:
            size = len(part)
            if count < size:
                if count:
                    # A view, so that the rest of a large part is not copied.
                    output[0] = part.after(count) if type(part) is FileRange else memoryview(part)[count:]
                return
            output.popleft()
            count -= size
            if not count:
                return

    def _stamp(self, started_ns: int) -> None:
        sent_ns = now_ns()
        ends, timeline = self._ends, self._timeline
        if not self.unsent_bytes and timeline is not None:  # the fast path: all have left
            ended = timeline.request_ended
            for request, _ in ends:
                if not request.send_started_ns:
                    request.send_started_ns = started_ns
                request.sent_ns = sent_ns
                ended(request)
            ends.clear()
            return
        while ends:
            request, end = ends[0]
            if not request.send_started_ns:
                request.send_started_ns = started_ns
            if end > self._sent_bytes:
                return
            request.sent_ns = sent_ns
            ends.popleft()
            if timeline is not None:
                timeline.request_ended(request)

    async def wait_writable(self) -> None:
        cold = self._cold
        if cold is not None:
            await trio.to_thread.run_sync(cold.load, limiter=_loads)
            self._cold = None
            self.is_blocked = False
            return
        await self._transport.wait_writable()
        self.is_blocked = False
        if self._transport.has_unsent:
            with suppress(BlockingIOError):
                self._transport.send(())  # the next `send` checks whether the layer is empty

    def abandon(self) -> list[Request]:
        """Drop all bytes of a closed connection, and return the timed requests with unsent responses."""
        abandoned = [request for request, _ in self._ends]
        self._ends.clear()
        self._output.clear()
        self._cold = None
        self.unsent_bytes = 0
        return abandoned
