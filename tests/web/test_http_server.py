"""The HTTP server bounds every client: slow, large, malformed, disconnected, or too many.

Longer than most files: all bounds are tested on one server.
"""

import contextlib
import http
import json
import socket
import sys

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.base.steps import finished
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.web import http_requests, http_server
from pipeline_broker.web.hosts import parse_host_port
from pipeline_broker.web.http_requests import HEADER_BYTES_MAX, HEADER_LINES_MAX, REQUEST_SECONDS
from pipeline_broker.web.http_server import (
    BODY_BYTES_MAX,
    EVENT_SECONDS,
    LINGER_BYTES_MAX,
    LINGER_SECONDS,
    RECEIVE_BYTES,
    HttpLimits,
    open_listeners,
    require_h11,
    serve_connection,
    serve_http,
)
from pipeline_broker.web.messages import (
    ANSWER_BYTES_MAX,
    SECURITY_HEADERS,
    Answer,
    AnswerTooLargeError,
    BadRequestError,
    EventStream,
    HttpRequest,
    event,
    json_answer,
    json_steps,
)

LIMITS = HttpLimits(connections_max=3, response_seconds=10)
EDGE_BYTES = 64 << 20
HEAD = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"


def kept():
    """Charge a connection to a budget of its own."""
    return ByteBudget(EDGE_BYTES).keep("connection", 0, lambda: None)


async def say(request):
    """Answer with the request, or fail as its path says."""
    if request.path == "/bad":
        raise BadRequestError("no")
    if request.path == "/broken":
        raise ZeroDivisionError
    return json_answer([request.method, request.path, request.body.decode()])


async def receive_all(stream):
    return b"".join([bytes(data) async for data in stream])


def split(response):
    head, _, body = response.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


def in_memory(client_does, handler=say):
    """Return the bytes that a client receives on one connection, and the seconds it takes on a virtual clock."""

    async def main():
        client, server = trio.testing.memory_stream_pair()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_connection, server, handler, LIMITS, kept())
            got = await client_does(client)
        return got, trio.current_time() - began

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def ask(*pieces, handler=say):
    async def client_does(client):
        for piece in pieces:
            await client.send_all(piece)
        return split(await receive_all(client))

    return in_memory(client_does, handler)[0]


def test_an_answer_has_every_security_header_and_ends_the_connection():
    status, headers, body = ask(HEAD)

    assert (status, body) == (200, b'["GET","/x",""]')
    assert headers["connection"] == "close"
    for name, value in SECURITY_HEADERS:
        assert headers[name.lower()] == value.lower()


def test_a_request_is_understood_however_it_is_cut():
    whole = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"

    assert ask(whole)[2] == ask(*[bytes([byte]) for byte in whole])[2] == b'["POST","/x","hello"]'


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET /x\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /?" + b"&".join([b"a=1"] * 30) + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /bad HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nX: " + b"x" * (HEADER_BYTES_MAX + RECEIVE_BYTES), 431),
        (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n" + bytes(BODY_BYTES_MAX + 1), 413),
        (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nshort", 408),
        (b"GET /x HTTP/1.1\r\n", 408),
    ],
)
def test_a_malformed_request_gets_its_status(sent, status):
    assert ask(sent)[0] == status


def test_a_handler_that_raises_is_answered_and_logged(caplog):
    assert ask(b"GET /broken HTTP/1.1\r\nHost: a\r\n\r\n")[0] == 500
    assert "ZeroDivisionError" in caplog.text


def test_head_has_no_body():
    status, headers, body = ask(HEAD.replace(b"GET", b"HEAD"))

    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 0


def test_a_client_that_dribbles_its_request_is_answered_in_time():
    async def dribble(client):
        try:
            for byte in HEAD:
                await client.send_all(bytes([byte]))
                await trio.sleep(REQUEST_SECONDS / 10)
        except trio.BrokenResourceError:
            pass
        return split(await receive_all(client))[0]

    assert in_memory(dribble)[0] == 408


def test_a_client_that_leaves_early_gets_no_answer_and_affects_no_other():
    async def leave(client):
        await client.send_all(HEAD[:7])
        await client.aclose()

    assert in_memory(leave)[1] == 0


@pytest.mark.parametrize(("is_stream", "seconds"), [(False, LIMITS.response_seconds), (True, EVENT_SECONDS)])
def test_a_client_that_does_not_read_is_given_up(is_stream, seconds):
    async def endless(send):
        while True:
            await send(event("x" * 1_000))

    async def handler(request):
        return EventStream(endless) if is_stream else await say(request)

    async def main():
        client, server = trio.testing.lockstep_stream_pair()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_connection, server, handler, LIMITS, kept())
            await client.send_all(HEAD)
        return trio.current_time() - began

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) <= seconds


def test_a_stream_sends_events_until_its_viewer_closes():
    ended = []

    async def endless(send):
        try:
            while True:
                await send(event({"beat": 1}))
                await trio.sleep(1)
        finally:
            ended.append(trio.current_time())

    async def handler(request):
        del request
        return EventStream(endless)

    async def watch(client):
        await client.send_all(HEAD)
        received = b""
        while received.count(b'data: {"beat":1}') < 3:
            received += await client.receive_some(4096)
        await client.aclose()
        return received

    received, seconds = in_memory(watch, handler)
    assert b"content-type: text/event-stream" in received.lower()
    assert (len(ended), seconds) == (1, 2)


def test_a_stream_that_raises_ends_alone(caplog):
    async def broken(send):
        await send(event(1))
        raise ZeroDivisionError

    async def handler(request):
        del request
        return EventStream(broken)

    assert ask(HEAD, handler=handler)[0] == 200
    assert "ZeroDivisionError" in caplog.text


class MemoryListener(trio.abc.Listener):
    """A listener of in-memory streams, of which the test holds the other side."""

    def __init__(self):
        self._send, self._receive = trio.open_memory_channel(100)

    async def connect(self):
        client, server = trio.testing.memory_stream_pair()
        await self._send.send(server)
        return client

    async def accept(self):
        return await self._receive.receive()

    async def aclose(self):
        pass


def with_server(scenario, handler=say, edges=None):
    """Return the result of `scenario`, which gets a server with a few slots and a virtual clock."""

    async def main():
        listener = MemoryListener()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_http, [listener], handler, LIMITS, edges or ByteBudget(EDGE_BYTES))
            got = await scenario(listener)
            nursery.cancel_scope.cancel()
        return got

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("held", [b"", HEAD[:-2], HEAD], ids=["silent", "half a request", "answered and staying"])
def test_slow_connections_are_evicted_for_new_ones_oldest_first(held):
    async def scenario(listener):
        slow = []
        for _ in range(LIMITS.connections_max + 1):
            slow.append(await listener.connect())
            await slow[-1].send_all(held or b"G")
            await trio.testing.wait_all_tasks_blocked()
        client = await listener.connect()
        await client.send_all(HEAD)
        status = split(await receive_all(client))[0]
        waited = trio.current_time() - began
        if held == HEAD:
            return status, waited, None
        return status, waited, [await slow[place].receive_some(1) for place in (0, 1)]

    began = 0.0

    async def timed(listener):
        nonlocal began
        began = trio.current_time()
        return await scenario(listener)

    status, waited, closed = with_server(timed)
    assert status == 200
    assert waited <= LINGER_SECONDS  # of its own answer
    assert closed in (None, [b"", b""])


def test_a_viewer_of_events_is_never_closed_for_another():
    async def endless(send):
        while True:
            await send(event("beat"))
            await trio.sleep(1)

    async def handler(request):
        return EventStream(endless) if request.path == "/x" else await say(request)

    async def scenario(listener):
        viewers = [await listener.connect() for _ in range(LIMITS.connections_max)]
        for viewer in viewers:
            await viewer.send_all(HEAD)
            assert b"beat" in await viewer.receive_some() + await viewer.receive_some()
        refused = await listener.connect()
        assert await refused.receive_some(1) == b""
        await trio.sleep(3)
        return [await viewer.receive_some(1) for viewer in viewers]

    assert all(with_server(scenario, handler))


def test_a_client_that_resets_its_connection_affects_no_other():
    async def main():
        listeners = await open_listeners("the pages", "127.0.0.1", 0, LIMITS)
        port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_http, listeners, say, LIMITS, ByteBudget(EDGE_BYTES))
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(HEAD[:7])
            stream.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
            )  # closing a stream with unread data resets it
            await stream.aclose()
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(HEAD)
                status = split(await receive_all(stream))[0]
            nursery.cancel_scope.cancel()
        return status

    assert trio.run(main) == 200


def test_a_client_that_never_closes_is_closed():
    async def stay(client):
        await client.send_all(HEAD)
        return split(await receive_all(client))[0]

    status, seconds = in_memory(stay)

    assert status == 200
    assert seconds <= LINGER_SECONDS


def test_a_body_that_is_too_large_is_refused_by_its_length_alone():
    """Without waiting for the body. Two equal lengths count as one."""
    head = b"POST /x HTTP/1.1\r\nHost: a\r\n"

    for length in (b"Content-Length: 1000000000\r\n", b"Content-Length: 20000\r\nContent-Length: 20000\r\n"):
        assert ask(head + length + b"\r\n")[0] == 413


def test_a_port_in_use_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(UnavailableError, match=f"cannot serve the pages on 127.0.0.1:{port}: Address"):
            trio.run(open_listeners, "the pages", "127.0.0.1", port, LIMITS)


def test_without_h11_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "h11", None)

    with pytest.raises(UnavailableError, match=r"cannot serve the pages: .*'pipeline-broker\[dashboard\]'"):
        require_h11("the pages")


def test_each_path_segment_is_decoded_alone():
    request = HttpRequest.parse(b"GET", b"/subjects/a%2Fb/versions//1?x=1", [])
    assert request.segments == ("subjects", "a/b", "versions", "1")
    assert request.path == "/subjects/a/b/versions//1"


def test_a_server_may_take_larger_bodies_than_others():
    size = 2 * BODY_BYTES_MAX
    limits = HttpLimits(connections_max=3, response_seconds=10, body_bytes_max=size)

    async def exchange(body_bytes):
        client, server = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_connection, server, say, limits, kept())
            head = f"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {body_bytes}\r\n\r\n".encode()
            await client.send_all(head + b"x" * body_bytes)
            return split(await receive_all(client))[0]

    assert [trio.run(exchange, size), trio.run(exchange, size + 1)] == [200, 413]


@pytest.mark.parametrize(
    ("text", "place"),
    [("80", ("127.0.0.1", 80)), ("0.0.0.0:0", ("0.0.0.0", 0)), ("[::1]:65535", ("::1", 65535))],
)
def test_a_place_is_a_port_of_this_machine_or_of_an_address(text, place):
    assert parse_host_port(text) == place


@pytest.mark.parametrize("text", ["", "x", ":80", "65536", "a:b", "1:"])
def test_an_invalid_address_is_refused(text):
    with pytest.raises(ValueError, match="is not a PORT or HOST:PORT"):
        parse_host_port(text)


def test_a_viewer_that_reads_no_further_is_given_up_at_the_first_event_that_it_does_not_read():
    sent = []

    async def endless(send):
        while True:
            sent.append(trio.current_time())
            await send(event("x" * 1_000))

    async def handler(request):
        del request
        return EventStream(endless)

    async def main():
        client, server = trio.testing.lockstep_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_connection, server, handler, LIMITS, kept())
            await client.send_all(HEAD)
            received = b""
            while b"x" * 1_000 not in received:
                received += await client.receive_some(4096)
            began, before = trio.current_time(), len(sent)
        return trio.current_time() - began, len(sent) - before

    seconds, events = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert seconds == EVENT_SECONDS
    assert events <= 1


CHUNKED = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunks(*contents):
    return b"".join(b"%x\r\n%s\r\n" % (len(content), content) for content in (*contents, b""))


def test_a_body_in_chunks_is_read_however_it_arrives():
    sent = CHUNKED + chunks(b"abc", b"d" * 5_000, b"e")
    for cut in (len(CHUNKED), len(CHUNKED) + 1, len(CHUNKED) + 5, len(sent) - 1, len(sent)):
        status, _, body = ask(sent[:cut], sent[cut:])
        assert (status, body.count(b"d")) == (200, 5_000)


def test_chunks_that_exceed_the_largest_body_are_refused():
    assert ask(CHUNKED + chunks(b"x" * BODY_BYTES_MAX))[0] == 200
    assert ask(CHUNKED + chunks(b"x" * BODY_BYTES_MAX, b"x"))[0] == 413


def test_too_many_chunks_of_single_bytes_are_refused():
    pieces_max = http_requests.PIECES_MAX + BODY_BYTES_MAX // http_requests.PIECE_BYTES
    assert ask(CHUNKED + chunks(*[b"x"] * (pieces_max // 2)))[0] == 200
    assert ask(CHUNKED + chunks(*[b"x"] * pieces_max))[0] == 400


def test_chunks_of_a_client_that_leaves_are_not_a_request():
    async def leave(client):
        await client.send_all(CHUNKED + chunks(b"abc")[:-2])
        await client.send_eof()
        return await receive_all(client)

    answer, _ = in_memory(leave)
    assert answer == b""


def test_bytes_after_a_request_are_read_up_to_a_bound():
    async def pour(client):
        await client.send_all(HEAD)
        poured = 0
        while poured < 4 * LINGER_BYTES_MAX:
            try:
                await client.send_all(bytes(RECEIVE_BYTES))
            except trio.BrokenResourceError:
                break
            poured += RECEIVE_BYTES
            await trio.testing.wait_all_tasks_blocked()
        return poured

    poured, _ = in_memory(pour)
    assert poured <= LINGER_BYTES_MAX + 2 * RECEIVE_BYTES


def test_a_head_of_very_many_lines_is_refused_before_it_is_parsed():
    assert ask(b"GET /x HTTP/1.1\r\nHost: h\r\n" + b"a:\r\n" * (HEADER_LINES_MAX - 10) + b"\r\n")[0] == 200
    assert ask(b"GET /x HTTP/1.1\r\nHost: h\r\n" + b"a:\r\n" * HEADER_LINES_MAX)[0] == 431, "its end is not waited for"


def test_lines_of_a_body_are_no_lines_of_a_head():
    body = b"\n" * (2 * HEADER_LINES_MAX)
    head = f"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for cut in (len(head), len(head) - 1, len(head) - 3):
        assert ask(head[:cut], head[cut:] + body)[0] == 200


def test_a_request_in_too_many_pieces_is_refused(monkeypatch):
    monkeypatch.setattr(http_requests, "PIECES_MAX", 60)
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"

    async def exchange(*pieces):
        """Send pieces so that each is received by itself."""
        client, server = trio.testing.lockstep_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_connection, server, say, LIMITS, kept())
            with contextlib.suppress(trio.BrokenResourceError):
                for piece in pieces:
                    nursery.start_soon(client.send_all, piece)
                    await trio.testing.wait_all_tasks_blocked()
            return split(await receive_all(client))[0]

    assert trio.run(exchange, *[bytes([byte]) for byte in head[:-2]], head[-2:], b"x" * 100) == 200
    assert trio.run(exchange, *[bytes([byte]) for byte in b"GET /" + b"x" * 54], b"x") == 400
    assert trio.run(exchange, head, *[b"x"] * 60) == 400


@pytest.mark.parametrize("length", [b"9" * 5000, b"0" * 5000 + b"1"])
def test_a_length_that_no_number_has_is_refused(length):
    assert ask(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + b"\r\n\r\n")[0] in (400, 413)


def test_bodies_and_answers_are_charged_while_they_are_kept():
    edges, sizes = ByteBudget(EDGE_BYTES), []
    body = b"x" * 10_000
    head = f"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def note(request):
        sizes.append(edges.size_bytes)
        return Answer(status=http.HTTPStatus.OK, body=bytes(100_000), content_type="x")

    async def main():
        client, server = trio.testing.lockstep_stream_pair()
        charged = edges.keep("connection", 0, lambda: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_connection, server, note, LIMITS, charged)
            await client.send_all(head + body)
            await client.receive_some(10)
            sizes.append(edges.size_bytes)
            await receive_all(client)
        charged.release()

    trio.run(main)
    assert sizes == [HEADER_BYTES_MAX + len(body), HEADER_BYTES_MAX + 100_000]
    assert edges.size_bytes == 0


def test_a_body_or_an_answer_beyond_the_budget_is_refused():
    small = ByteBudget(8 * (HEADER_BYTES_MAX + 5_000))

    async def exchange(sent, handler=say):
        client, server = trio.testing.memory_stream_pair()
        charged = small.keep("connection", 0, lambda: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_connection, server, handler, LIMITS, charged)
            await client.send_all(sent)
            status = split(await receive_all(client))[0]
        charged.release()
        return status

    async def large(request):
        del request
        return Answer(status=http.HTTPStatus.OK, body=bytes(10_000), content_type="x")

    assert trio.run(exchange, b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 10000\r\n\r\n" + bytes(10_000)) == 413
    assert trio.run(exchange, HEAD, large) == 503
    assert trio.run(exchange, HEAD) == 200


def test_when_the_budget_is_spent_the_largest_connection_is_closed_for_a_newcomer():
    async def scenario(listener):
        large = await listener.connect()
        await large.send_all(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n" + bytes(8_000))
        await trio.testing.wait_all_tasks_blocked()
        for place in range(7):
            edges.keep(f"others {place}", edges.holder_bytes_max - 1_000, lambda: None)
        client = await listener.connect()
        await client.send_all(HEAD)
        return split(await receive_all(client))[0], await large.receive_some(1)

    edges = ByteBudget(8 * (HEADER_BYTES_MAX + 10_000))
    assert with_server(scenario, edges=edges) == (200, b"")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_in_steps_is_json(content):
    assert json.loads(finished(json_steps(content))) == content


def test_json_in_steps_is_made_some_at_a_time_and_no_larger_than_an_answer_may_be():
    assert sum(1 for _ in json_steps(list(range(10_000)))) > 50
    with pytest.raises(AnswerTooLargeError):
        finished(json_steps(["x" * 1_000] * (ANSWER_BYTES_MAX // 1_000 + 100)))


def test_an_event_stream_that_raises_sends_an_end_event(caplog):
    async def broken(send):
        await send(event(1))
        raise ZeroDivisionError

    async def handler(request):
        del request
        return EventStream(broken)

    assert b'event: end\ndata: {"reason":"the broker could not continue' in ask(HEAD, handler=handler)[2]
    assert caplog.text.count("Traceback") == 1


def test_a_request_has_the_address_of_its_client_and_one_without_address_is_not_served():
    seen = []

    async def handler(request):
        await trio.lowlevel.checkpoint()
        seen.append(request.peer)
        return json_answer({})

    async def main():
        listeners = await open_listeners("a test", "127.0.0.1", 0, LIMITS)
        port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_http, listeners, handler, LIMITS, ByteBudget(1 << 20))
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
                assert b"".join([bytes(data) async for data in stream]).startswith(b"HTTP/1.1 200")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(http_server, "_peer_of", lambda _: None)
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    with contextlib.suppress(trio.BrokenResourceError):
                        await stream.send_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
                        assert await stream.receive_some() == b""
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert seen == ["127.0.0.1"]
