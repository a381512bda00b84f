"""What one connection has to send: responses in their order, as bytes.

Rules of this room: responses were put in order before they come here; everything that waits leaves in as few sends as
the transport allows; a transport that takes no more blocks the output until it can be written to again.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import islice

from stages.frames import frame_of
from stages.request import Buffer, Close, Request, Send
from stages.timeline import Timeline, now_ns
from stages.transport_layer import PARTS_MAX, TransportLayer

__all__ = ["ResponseOutput"]


class ResponseOutput:
    """See the rules of the room.

    Attributes:
        is_blocked: the transport takes no more bytes now.
        unsent_bytes: bytes that did not leave yet.
    """

    __slots__ = ("_ends", "_output", "_sent_bytes", "_timeline", "_transport", "is_blocked", "unsent_bytes")

    def __init__(self, transport: TransportLayer, timeline: Timeline | None) -> None:
        self.is_blocked = False
        self._transport = transport
        self._timeline = timeline
        self._output: deque[Buffer] = deque()
        self._ends: deque[tuple[Request, int]] = deque()  # of timed requests: where each response ends in the stream
        self.unsent_bytes = 0
        self._sent_bytes = 0

    @property
    def unsent_responses(self) -> int:
        """Responses of timed requests that did not leave yet."""
        return len(self._ends)

    def observe(self, timeline: Timeline | None) -> None:
        """Report to this timeline, or to nobody, from now on."""
        self._timeline = timeline

    def add(self, request: Request) -> int:
        """Append the response of a request that was released, and return its bytes; one without only passes."""
        result, count = request.result, 0
        if type(result) is Send:
            parts, count = frame_of(result)
            self._output.extend(parts)
            self.unsent_bytes += count
            request.response_bytes = count
        elif type(result) is Close and result.last_bytes:
            self._output.append(result.last_bytes)
            self.unsent_bytes += len(result.last_bytes)
        if request.enqueued_ns:
            self._ends.append((request, self._sent_bytes + self.unsent_bytes))
        return count

    def add_frame(self, send: Send) -> None:
        """Append a frame that answers no request."""
        parts, count = frame_of(send)
        self._output.extend(parts)
        self.unsent_bytes += count

    def send(self) -> int:
        """Hand over as many bytes as the transport takes, and return how many; never waits.

        Raises:
            BrokenTransportError: the client is gone.
        """
        output, before = self._output, self._sent_bytes
        started_ns = now_ns() if self._ends else 0
        while output:
            parts = tuple(output if len(output) <= PARTS_MAX else islice(output, PARTS_MAX))
            try:
                count = self._transport.send(parts)
            except BlockingIOError:
                self.is_blocked = True
                break
            self._sent_bytes += count
            self.unsent_bytes -= count
            self._forget(parts, count)
        if not output and self._transport.has_unsent:
            self.is_blocked = True
        if self._ends:
            self._stamp(started_ns)
        return self._sent_bytes - before

    def _forget(self, parts: tuple[Buffer, ...], count: int) -> None:
        """Take out what was sent."""
        output = self._output
        for part in parts:
            size = len(part)
            if count < size:
                if count:
                    output[0] = memoryview(part)[count:]
                return
            output.popleft()
            count -= size
            if not count:
                return

    def _stamp(self, started_ns: int) -> None:
        """Stamp the responses that left, or that have begun to."""
        sent_ns = now_ns()
        ends, timeline = self._ends, self._timeline
        if not self.unsent_bytes and timeline is not None:  # nearly always: all of them
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
        """Wait until `send` may make progress."""
        await self._transport.wait_writable()
        self.is_blocked = False
        if self._transport.has_unsent:
            with suppress(BlockingIOError):
                self._transport.send(())  # `send` finds whether that was all

    def abandon(self) -> list[Request]:
        """Forget everything, because the connection is closed; the requests whose response did not leave."""
        abandoned = [request for request, _ in self._ends]
        self._ends.clear()
        self._output.clear()
        return abandoned
