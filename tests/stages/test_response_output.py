"""The output of one connection, by itself: nothing of it outlives the connection."""

from stages.request import Request, Send
from stages.response_output import ResponseOutput


class Blocked:
    """A transport that takes a fixed number of bytes."""

    has_unsent = False

    def __init__(self, room_bytes):
        self.room_bytes, self.sent = room_bytes, b""

    def send(self, parts):
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
