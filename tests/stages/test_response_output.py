"""What one connection has to send, by itself: nothing of it outlives the connection."""

from stages.request import Send
from stages.response_output import ResponseOutput


class Blocked:
    """A transport that takes so many bytes, and no more."""

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


def test_what_was_not_sent_when_the_connection_was_closed_is_never_sent():
    transport = Blocked(6)
    output = ResponseOutput(transport, None)
    output.add_frame(Send(b"response"))
    assert (output.send(), output.is_blocked, output.unsent_bytes) == (6, True, 6)
    output.abandon()
    transport.room_bytes = 100
    assert output.send() == 0
    assert transport.sent == b"\0\0\0\x08re"
