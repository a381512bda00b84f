"""The output of one connection, by itself: nothing of it outlives the connection."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from stages.file_range import FileRange
from stages.request import Request, Send
from stages.response_output import ResponseOutput
from stages.transport_layer import JOIN_BYTES_MAX


class Blocked:
    """A transport that takes a fixed number of bytes."""

    has_unsent = False

    def __init__(self, room_bytes):
        self.room_bytes, self.sent = room_bytes, b""

    def send(self, parts, *, is_continued=False):
        data = b"".join(parts)[: self.room_bytes]
        if not data:
            raise BlockingIOError
        self.room_bytes -= len(data)
        self.sent += data
        return len(data)


def test_unsent_bytes_of_a_closed_connection_are_never_sent():
    transport = Blocked(6)
    output = ResponseOutput(transport, None)
    output.add_frame(Send(b"response"))
    assert (output.send(), output.is_blocked, output.unsent_bytes) == (6, True, 6)
    output.abandon()
    transport.room_bytes = 100
    assert output.send() == 0
    assert transport.sent == b"\0\0\0\x08re"


class Timeline:
    """Records ended requests."""

    def __init__(self):
        self.ended = []

    def request_ended(self, request):
        self.ended.append(request)


def timed_request():
    request = Request(None, 0, b"request", 1)
    request.enqueued_ns = 1
    request.result = Send(b"response")
    return request


def test_a_response_that_leaves_in_two_parts_is_timed_from_its_first_byte_to_its_last():
    transport, timeline, request = Blocked(6), Timeline(), timed_request()
    output = ResponseOutput(transport, timeline)
    output.add(request)
    output.send()
    began_ns = request.send_started_ns
    assert began_ns > 0
    assert (request.sent_ns, timeline.ended) == (0, [])
    transport.room_bytes = 100
    output.send()
    assert request.send_started_ns == began_ns < request.sent_ns
    assert timeline.ended == [request]


def test_an_unsent_response_is_dropped_with_its_connection():
    output, request = ResponseOutput(Blocked(6), Timeline()), timed_request()
    output.add(request)
    output.send()
    assert output.unsent_responses == 1
    assert output.abandon() == [request]
    assert output.unsent_responses == 0
    assert output.abandon() == []


class Source:
    """The source of a range. Its bytes are in memory up to `loaded_end`, and `load` adds a few."""

    def __init__(self, content, loaded_end):
        self.content, self.loaded_end, self.load_fault = content, loaded_end, None

    def read(self, position, size_bytes):
        return self.content[position : position + size_bytes]

    def load(self, position, size_bytes):
        if self.load_fault:
            raise self.load_fault
        assert position >= self.loaded_end
        assert size_bytes == len(self.content) - position
        self.loaded_end = position + 40_000


class Ranges(Blocked):
    """A transport that sends ranges, and records each call: whether more bytes follow, or None for a range."""

    def __init__(self, room_bytes):
        super().__init__(room_bytes)
        self.calls = []

    def send(self, parts, *, is_continued=False):
        self.calls.append(is_continued)
        return super().send(parts)

    def send_range(self, part):
        self.calls.append(None)
        end = min(part.position + part.size_bytes, part.source.loaded_end)
        return super().send((part.source.read(part.position, end - part.position),)) if end > part.position else 0

    async def wait_writable(self):
        await trio.lowlevel.checkpoint()
        self.room_bytes += 30_000


def content(number, size=JOIN_BYTES_MAX):
    return bytes([number % 251]) * size


async def drain(output):
    output.send()
    while output.is_blocked:
        await output.wait_writable()
        output.send()


@given(
    room_bytes=st.integers(0, 300_000),
    responses=st.lists(st.lists(st.sampled_from(["bytes", "loaded", "cold"]), max_size=4), max_size=5),
)
def test_bytes_and_ranges_of_files_leave_in_their_order(room_bytes, responses):
    transport = Ranges(room_bytes)
    output, wanted, number = ResponseOutput(transport, None), b"", 0
    for kinds in responses:
        parts, body = [], b""
        for kind in ["bytes", *kinds]:
            number += 1
            data = content(number, JOIN_BYTES_MAX + number)
            loaded_end = len(data) if kind == "loaded" else 0
            parts.append(data if kind == "bytes" else FileRange(Source(data, loaded_end), 0, len(data)))
            body += data
        request = Request(None, 0, b"request", 1)
        request.result = Send(*parts)
        assert output.add(request) == len(body) + 4
        wanted += len(body).to_bytes(4, "big") + body
    assert output.unsent_bytes == len(wanted)
    trio.run(drain, output)
    assert transport.sent == wanted
    assert output.unsent_bytes == 0


def test_the_bytes_before_a_range_announce_that_more_follow():
    transport, request = Ranges(1 << 30), Request(None, 0, b"request", 1)
    data = content(1)
    request.result = Send(b"head", FileRange(Source(data, len(data)), 0, len(data)), b"tail")
    output = ResponseOutput(transport, None)
    output.add(request)
    output.send()
    assert transport.calls == [True, None, False]


def test_a_range_that_cannot_be_loaded_raises_in_the_task_that_waits():
    transport, request = Ranges(1 << 30), Request(None, 0, b"request", 1)
    source = Source(content(1), 0)
    source.load_fault = OSError(5, "Input/output error")
    request.result = Send(b"head", FileRange(source, 0, JOIN_BYTES_MAX))
    output = ResponseOutput(transport, None)
    output.add(request)
    output.send()
    assert output.is_blocked
    with pytest.raises(OSError, match="Input/output"):
        trio.run(output.wait_writable)


def test_a_range_can_be_the_only_part_of_a_response():
    transport, request = Ranges(1 << 30), Request(None, 0, b"request", 1)
    data = content(7, 10)
    request.result = Send(FileRange(Source(data, 10), 0, 10))
    output = ResponseOutput(transport, None)
    assert output.add(request) == 14
    output.send()
    assert transport.sent == (10).to_bytes(4, "big") + data
