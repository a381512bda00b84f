"""Frames that are none: sizes out of range, other protocols, truncated and cut-up frames."""

import random
import socket
import struct
import threading
from contextlib import suppress

import pytest

from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.bad_input.raw_client import answer_of, batch_of, frame_of, produce_answers, produce_request

FRAME_BYTES_MAX = 100 * 1024 * 1024
TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(range(32))
SSH = b"SSH-2.0-OpenSSH_9.2\r\n"
PRODUCE_VERSION = 9


@pytest.mark.parametrize(
    "size", [-(2**31), -1, FRAME_BYTES_MAX + 1, 2**31 - 1], ids=["lowest", "-1", "one too large", "2^31-1"]
)
def test_a_size_out_of_range_closes_right_after_the_length(broker, size):
    """Nothing but the four bytes is sent, so the close is not waiting for more. Behaviour 6. Case 56."""
    with broker.connect() as client:
        client.send(struct.pack(">i", size))
        assert client.is_closed()


@pytest.mark.parametrize("size", range(8))
def test_a_frame_too_short_for_a_header_closes(broker, size):
    """Case 56."""
    with broker.connect() as client:
        assert client.ask_raw(bytes(size)) is None


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", TLS_HELLO, SSH, b"\xff" * 64],
    ids=["GET", "POST", "TLS", "SSH", "ones"],
)
def test_another_protocol_on_the_port_is_closed(broker, data):
    """Case 58."""
    with broker.connect() as client:
        client.send(data)
        assert client.is_closed()


def test_requests_before_a_bad_frame_are_answered_first(broker):
    """What was understood is answered in order, then the connection is closed."""
    with broker.connect() as client:
        for correlation_id in range(3):
            client.send_frame(frame_of(ApiVersionsRequest(), 0, correlation_id))
        client.send_frame(b"\0")
        client.send_frame(frame_of(ApiVersionsRequest(), 0, 3))
        answers = [client.receive_frame() for _ in range(4)]
    assert [answer and struct.unpack_from(">i", answer)[0] for answer in answers] == [0, 1, 2, None]


def test_a_request_byte_by_byte_is_answered(broker):
    """However a frame is cut into packets, and a second one may begin in the packet that ends the first. Case 52."""
    frame = frame_of(ApiVersionsRequest(), 0)
    data = struct.pack(">i", len(frame)) + frame
    with broker.connect() as client:
        for position in range(len(data) - 1):
            client.send(data[position : position + 1])
        client.send(data[-1:] + data)
        assert client.receive_frame() == client.receive_frame() is not None


def test_a_request_cut_anywhere_behind_another_in_one_packet_is_answered(broker):
    """Case 52: the first packet has one request and a part of a second; its rest comes when the first was answered."""
    first = frame_of(ApiVersionsRequest(), 0)
    second = frame_of(produce_request((0, batch_of(b"cut"))), PRODUCE_VERSION, correlation_id=8)
    data = struct.pack(">i", len(first)) + first + struct.pack(">i", len(second)) + second
    with broker.connect() as client:
        for position in range(4 + len(first), len(data)):
            client.send(data[:position])
            assert client.receive_frame() is not None
            client.send(data[position:])
            answer = answer_of(produce_request(), PRODUCE_VERSION, client.receive_frame(), correlation_id=8)
            assert produce_answers(answer) == [(0, 0)]


def test_random_bytes_close_and_nobody_waits_for_them(broker):
    """Case 58: what is no frame, or a frame that is no request, and then the client's end."""
    dice = random.Random(58)
    for _ in range(200):
        with broker.connect() as client:
            client.send(dice.randbytes(dice.randrange(1, 300)))
            with suppress(OSError):  # the broker may have closed already
                client.socket.shutdown(socket.SHUT_WR)
            while client.receive_frame() is not None:
                pass


@pytest.mark.parametrize("abort", [False, True], ids=["end", "reset"])
def test_a_client_that_leaves_in_the_middle_of_a_produce_request(broker, abort):
    """A batch is appended whole or not at all, and a connection that ends in mid-frame is just gone.

    Behaviour 41. Case 43.
    """
    frame = frame_of(produce_request((1, batch_of(b"cut off"))), PRODUCE_VERSION)
    data = struct.pack(">i", len(frame)) + frame
    first = whole_batch_offset(broker)
    for position in (*range(40), *range(40, len(data), 7), len(data) - 1):
        client = broker.connect()
        client.send(data[:position])
        if abort:
            client.reset_when_closed()
        client.socket.close()
    assert whole_batch_offset(broker) == first + 1


def whole_batch_offset(broker):
    """Where a batch of one record lands that is sent as it should be."""
    with broker.connect() as client:
        response = client.ask(produce_request((1, batch_of(b"whole"))), PRODUCE_VERSION)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == 0
    return answer.base_offset


def test_a_client_that_sends_its_last_request_and_ends_is_answered(broker):
    """A half-closed connection still gets its responses. Case 46."""
    with broker.connect() as client:
        client.send_frame(frame_of(produce_request((0, batch_of(b"last words"))), PRODUCE_VERSION))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.receive_frame() is not None
        assert client.is_closed()


def test_a_thousand_requests_in_one_packet_are_answered_in_order(broker):
    """Case 51."""
    request = b"".join(
        struct.pack(">i", len(frame)) + frame
        for frame in (frame_of(ApiVersionsRequest(), 0, correlation_id) for correlation_id in range(1000))
    )
    with broker.connect() as client:
        sender = threading.Thread(target=client.send, args=(request,))
        sender.start()
        answers = [client.receive_frame() for _ in range(1000)]
        sender.join()
    assert [struct.unpack_from(">i", answer)[0] for answer in answers] == list(range(1000))


def test_a_client_id_of_any_length_is_taken(broker):
    """The client id is whatever the client likes: empty, null, or as long as a string may be. Behaviour 71. Case 65."""
    with broker.connect() as client:
        for client_id in ("", None, "x" * 32767, "\N{SNOWMAN}\0"):
            request = produce_request((0, batch_of(b"named")))
            assert produce_answers(client.ask(request, PRODUCE_VERSION)) == [(0, 0)]
            assert client.ask_raw(frame_of(ApiVersionsRequest(), 0, client_id=client_id)) is not None


@pytest.mark.parametrize("length", [-2, -32768, 32767, 60], ids=str)
def test_a_bad_client_id_closes(broker, length):
    """Behaviour 75."""
    with broker.connect() as client:
        assert client.ask_raw(struct.pack(">hhih", ApiKey.METADATA, 1, 1, length) + b"too short") is None


def test_a_client_id_that_is_not_utf8_is_answered_as_by_kafka_and_logged_once(broker):
    seen = len(broker.process.stderr)
    with broker.connect() as client:
        for _ in range(2):
            assert client.ask_raw(struct.pack(">hhih", ApiKey.METADATA, 1, 1, 2) + b"\xff\xfe" + bytes(4)) is not None
    (warning,) = broker.process.stderr[seen:].splitlines()
    assert "client id '\ufffd\ufffd') sent text that is not UTF-8" in warning
    broker.stderr_seen = len(broker.process.stderr)
