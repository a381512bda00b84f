"""The bytes of one connection of the load client, without the connection.

Rules of this file: no I/O and no clock, stamps are passed in. Requests are pre-built and differ in their
correlation id only, 0, 1, 2, ... per connection; of a response only length, correlation id and error code are read.
What is remembered per request is one entry in a plain list, because the client must not be what is measured.
"""

import struct
from collections.abc import Sequence

import attrs

Buffer = bytes | bytearray | memoryview

RESPONSE_SIZE_MAX = 1 << 20
CORRELATION_POSITION = 8  # behind length, api key and version
_CORRELATION = struct.Struct(">i")


class LoadError(Exception):
    """The load cannot be run or was broken off; the message is one line for a person."""


@attrs.frozen(slots=True)
class ProduceTemplate:
    """Framed produce requests, one per partition and all of one size, and where a response has its error code."""

    requests: tuple[bytes, ...]
    error_position: int  # within the framed response

    @property
    def size(self) -> int:
        """Bytes of one framed request."""
        return len(self.requests[0])


class Exchange:
    """What was sent and received on one connection.

    `sent_ns[i]` and `intended_ns[i]` belong to correlation id i; `received`, `errors` and `answered_ns` are in order
    of receipt.
    """

    def __init__(self, error_position: int) -> None:
        self.sent_ns: list[int] = []
        self.intended_ns: list[int] = []  # stays empty in a closed loop
        self.received: list[int] = []
        self.errors: list[int] = []
        self.answered_ns: list[int] = []
        self._rest = b""
        self._fields = struct.Struct(f">ii{error_position - 8}xh")

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self.sent_ns) - len(self.received)

    def receive(self, data: bytes, now_ns: int) -> int:
        """Take in what one read gave; the number of answers in it."""
        if self._rest:
            data = self._rest + data
        position, size = 0, len(data)
        received, errors = self.received, self.errors
        unpack, head_size = self._fields.unpack_from, self._fields.size
        before, sent = len(received), len(self.sent_ns)
        while size - position >= head_size:
            length, correlation_id, error = unpack(data, position)
            if not head_size - 4 <= length <= RESPONSE_SIZE_MAX:
                raise LoadError(f"the broker sent a response of {length} bytes, which is not a produce response")
            end = position + 4 + length
            if end > size:
                break
            if not 0 <= correlation_id < sent:
                raise LoadError(f"the broker answered correlation id {correlation_id}, which was never sent")
            received.append(correlation_id)
            errors.append(error)
            position = end
        self._rest = data[position:]
        count = len(received) - before
        if len(received) > sent:
            raise LoadError("the broker sent more answers than it got requests")
        self.answered_ns += [now_ns] * count
        return count


class ClosedLoop(Exchange):
    """Keeps a window of requests in flight, over all partitions in turn; `window` may be made smaller for a while."""

    def __init__(self, template: ProduceTemplate, in_flight: int, partition_first: int = 0) -> None:
        super().__init__(template.error_position)
        self.window = in_flight
        count = len(template.requests)
        self._size = template.size
        self._partitions = count
        self._first = partition_first
        # One window of requests behind every partition that may come first: sending is patching ids and one slice.
        self._buffer = bytearray(b"".join(template.requests[index % count] for index in range(in_flight + count - 1)))

    def refill(self, now_ns: int) -> bytes:
        """The requests that fill the window again, to be sent now."""
        count = self.window - self.in_flight
        next_id = len(self.sent_ns)
        size = self._size
        start = (next_id + self._first) % self._partitions * size
        buffer, pack_into = self._buffer, _CORRELATION.pack_into
        position = start + CORRELATION_POSITION
        for correlation_id in range(next_id, next_id + count):
            pack_into(buffer, position, correlation_id)
            position += size
        self.sent_ns += [now_ns] * count
        return bytes(memoryview(buffer)[start : start + count * size])


class OpenLoop(Exchange):
    """Sends given requests at given times, whatever the answers do."""

    def __init__(self, requests: Sequence[bytes], intended_ns: Sequence[int], error_position: int) -> None:
        super().__init__(error_position)
        self._requests = requests
        self._plan_ns = intended_ns

    @property
    def next_ns(self) -> int | None:
        """When the next request is to be sent; None when all are."""
        sent = len(self.sent_ns)
        return self._plan_ns[sent] if sent < len(self._plan_ns) else None

    def due(self, now_ns: int) -> bytes:
        """All requests whose time has come."""
        first = sent = len(self.sent_ns)
        plan, total = self._plan_ns, len(self._plan_ns)
        parts: list[bytes] = []
        while sent < total and plan[sent] <= now_ns:
            request = self._requests[sent]
            parts += (request[:CORRELATION_POSITION], _CORRELATION.pack(sent), request[CORRELATION_POSITION + 4 :])
            sent += 1
        self.intended_ns += plan[first:sent]
        self.sent_ns += [now_ns] * (sent - first)
        return b"".join(parts)
