"""HTTP ports with TLS and users: handshakes, refusals and their bounds."""

import base64
import contextlib
import errno
import os
import socket
import ssl

import attrs
import pytest
import trio
import trio.testing
import trustme

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.security.basic_users import BasicUsers
from pipeline_broker.security.http_security import HttpSecurity
from pipeline_broker.security.tls import TlsContexts
from pipeline_broker.web import tls_stream
from pipeline_broker.web.http_server import LINGER_SECONDS, HttpLimits, open_listeners, serve_http
from pipeline_broker.web.messages import EventStream, HttpRequest, event, json_answer
from pipeline_broker.web.strangers import SameOriginCheck
from pipeline_broker.web.tls_stream import HANDSHAKE_SECONDS, TlsStream
from pipeline_broker.web.user_guard import LOG_SECONDS, LOGGED_MAX, NAME_CHARACTERS_MAX, REFUSAL_SECONDS, guarded

LIMITS = HttpLimits(connections_max=3, response_seconds=10, body_bytes_max=1 << 20)
EDGE_BYTES = 64 << 20
GUESSES = 20
RIGHT, WRONG = (f"Basic {base64.b64encode(each).decode()}" for each in (b"ada:secret", b"ada:guess"))
AUTHORITY = trustme.CA()


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users"
    path.write_text("ada:secret\n")
    return BasicUsers(path)


@pytest.fixture
def tls(tmp_path):
    path = tmp_path / "store.pem"
    AUTHORITY.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    return TlsContexts({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})


async def echo(request):
    await trio.lowlevel.checkpoint()
    return json_answer([request.path, len(request.body)])


def request_to(path="/", authorization=None):
    headers = {} if authorization is None else {"authorization": authorization}
    return HttpRequest(method="GET", path=path, query={}, headers=headers)


def in_virtual_time(main, threshold=0.0):
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=threshold))


# Users


def test_a_request_of_a_user_is_answered_and_any_other_is_challenged(users):
    async def main():
        answer = guarded(echo, users, ("/healthz",))
        assert (await answer(request_to("/a", RIGHT))).status == 200
        assert (await answer(request_to("/healthz"))).status == 200
        for authorization in (None, WRONG, "Bearer x"):
            refused = await answer(request_to("/a", authorization))
            assert refused.status == 401
            assert ("WWW-Authenticate", 'Basic realm="pipeline-broker", charset="UTF-8"') in refused.headers

    in_virtual_time(main)


def test_a_refused_user_is_logged_with_its_address_and_never_a_password(users, caplog):
    async def main():
        answer = guarded(echo, users)
        for credentials in ("ada:guess", 'eve"\n:x', "ada:guess", "secret-without-colon", f"{'n' * 300}:x"):
            header = f"Basic {base64.b64encode(credentials.encode()).decode()}"
            await answer(attrs.evolve(request_to("/a", header), peer="10.0.0.7"))
        await answer(attrs.evolve(request_to("/a", "Bearer secret"), peer="10.0.0.8"))
        await answer(attrs.evolve(request_to("/a"), peer="10.0.0.9"))

    in_virtual_time(main)
    reason = "unknown, or another password"
    assert [record.getMessage() for record in caplog.records] == [
        f'an HTTP port refused the user "ada" from 10.0.0.7: {reason}',
        f'an HTTP port refused the user "eve\\"\\n" from 10.0.0.7: {reason}',
        f"an HTTP port refused a user without a name from 10.0.0.7: {reason} (not logged before: 1)",
        f'an HTTP port refused the user "{"n" * NAME_CHARACTERS_MAX}" from 10.0.0.7: {reason}',
        f"an HTTP port refused a user without a name from 10.0.0.8: {reason}",
    ]


def test_the_log_of_refused_users_is_bounded(users, caplog):
    async def main():
        answer = guarded(echo, users)
        for number in range(LOGGED_MAX + 5):
            await answer(request_to("/", f"Basic {base64.b64encode(b'u%d:x' % number).decode()}"))
        assert len(caplog.records) == LOGGED_MAX
        await trio.sleep(LOG_SECONDS)
        await answer(request_to("/", WRONG))
        assert len(caplog.records) == LOGGED_MAX + 1
        assert caplog.records[-1].getMessage().endswith(" (not logged before: 5)")

    in_virtual_time(main)


def test_guesses_are_answered_one_after_the_other_and_users_do_not_wait_for_them(users):
    async def main():
        answer, ended = guarded(echo, users), []

        async def guess():
            await answer(request_to("/", WRONG))
            ended.append(trio.current_time())

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(GUESSES):
                nursery.start_soon(guess)
            await trio.testing.wait_all_tasks_blocked()
            assert (await answer(request_to("/", RIGHT))).status == 200
            assert (await answer(request_to("/"))).status == 401, "the first request of a browser"
            assert trio.current_time() == began
        intervals = [after - before for before, after in zip([began, *ended], ended, strict=False)]
        assert min(intervals) == pytest.approx(REFUSAL_SECONDS)

    in_virtual_time(main, 0.01)


# TLS


@contextlib.asynccontextmanager
async def serving(security, handler=echo):
    """Serve on a port, and yield its number."""
    listeners = await open_listeners("a test", "127.0.0.1", 0, LIMITS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_http, listeners, handler, LIMITS, ByteBudget(EDGE_BYTES), security)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def trusting():
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


async def connected(port):
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    secure = trio.SSLStream(stream, trusting(), server_hostname="127.0.0.1", https_compatible=True)
    await secure.do_handshake()
    return secure


async def ask(port, head=b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n", body=b""):
    async with await connected(port) as stream:
        await stream.send_all(head + body)
        return b"".join([bytes(data) async for data in stream])


def test_requests_and_large_bodies_and_answers_pass_through_tls(tls):
    size = 700_000

    async def large(request):
        await trio.lowlevel.checkpoint()
        return json_answer("x" * len(request.body))

    async def main():
        async with serving(HttpSecurity(tls=tls), large) as port:
            head = f"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n".encode()
            received = await ask(port, head, bytes(size))
            assert received.startswith(b"HTTP/1.1 200 OK\r\n")
            assert received.endswith(b"\r\n\r\n" + b'"' + b"x" * size + b'"')

    trio.run(main)


def test_events_are_streamed_until_the_viewer_leaves(tls):
    left = trio.Event()

    async def watch(_request):
        await trio.lowlevel.checkpoint()

        async def run(send):
            try:
                await send(event(1))
                await trio.sleep_forever()
            finally:
                left.set()

        return EventStream(run)

    async def main():
        async with serving(HttpSecurity(tls=tls), watch) as port:
            stream = await connected(port)
            await stream.send_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
            received = b""
            while b"data: 1" not in received:
                received += bytes(await stream.receive_some())
            await trio.aclose_forcefully(stream)
            with trio.fail_after(10):
                await left.wait()

    trio.run(main)


def test_a_renewed_certificate_is_shown_to_new_connections(tls, tmp_path):
    async def shown(port):
        async with await connected(port) as stream:
            return stream.getpeercert(binary_form=True)

    async def main():
        async with serving(HttpSecurity(tls=tls)) as port:
            before = await shown(port)
            renewed = AUTHORITY.issue_cert("127.0.0.1")
            renewed.private_key_and_cert_chain_pem.write_to_path(tmp_path / "store.pem")
            settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "store.pem")}
            tls.reload({**settings, "ssl.allow.dn.changes": "true"})
            assert await shown(port) == ssl.PEM_cert_to_DER_cert(renewed.cert_chain_pems[0].bytes().decode()) != before

    trio.run(main)


@pytest.mark.parametrize("sent", [b"", b"\x16", b"GET / HTTP/1.1\r\n\r\n"], ids=["silent", "slow", "plain"])
def test_a_handshake_that_is_slow_or_none_ends_within_its_bound_and_delays_no_other(tls, sent):
    async def main():
        async with serving(HttpSecurity(tls=tls)) as port:
            async with await trio.open_tcp_stream("127.0.0.1", port) as slow:
                await slow.send_all(sent)
                assert (await ask(port)).startswith(b"HTTP/1.1 200")
                began = trio.current_time()
                with contextlib.suppress(trio.BrokenResourceError):
                    while await slow.receive_some():
                        pass
                assert trio.current_time() - began <= HANDSHAKE_SECONDS + LINGER_SECONDS
            assert (await ask(port)).startswith(b"HTTP/1.1 200")

    in_virtual_time(main, 0.2)


def test_silent_handshakes_in_all_slots_do_not_lock_others_out(tls):
    async def main():
        async with serving(HttpSecurity(tls=tls)) as port:
            silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2 * LIMITS.connections_max)]
            assert (await ask(port)).startswith(b"HTTP/1.1 200")
            for each in silent:
                await each.aclose()

    trio.run(main)


def test_without_descriptors_a_connection_is_refused_and_the_server_continues(tls, monkeypatch, caplog):
    def refuse(_descriptor):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def main():
        async with serving(HttpSecurity(tls=tls)) as port:
            with monkeypatch.context() as patch:
                patch.setattr(tls_stream.os, "dup", refuse)
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    with contextlib.suppress(trio.BrokenResourceError):
                        assert await stream.receive_some() == b""
            assert (await ask(port)).startswith(b"HTTP/1.1 200")

    trio.run(main)
    assert "a connection over HTTP is refused" in caplog.messages[0]


def test_a_stream_receives_no_more_bytes_than_requested(tls):
    async def main():
        client, server = socket.socketpair()
        accepted = trio.SocketStream(trio.socket.from_stdlib_socket(server))
        context = trusting()
        client = trio.SocketStream(trio.socket.from_stdlib_socket(client))
        secure = trio.SSLStream(client, context, server_hostname="127.0.0.1", https_compatible=True)
        stream = TlsStream(accepted, tls.context())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.start)
            await secure.do_handshake()
        await secure.send_all(b"abcdef")
        assert [await stream.receive_some(4), await stream.receive_some(4)] == [b"abcd", b"ef"]
        await stream.aclose()
        await trio.aclose_forcefully(secure)

    trio.run(main)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"host": "127.0.0.1", "origin": "https://127.0.0.1"}, None),
        ({"host": "127.0.0.1", "origin": "http://127.0.0.1"}, "the Origin header does not name this broker"),
    ],
)
def test_the_own_origin_has_the_scheme_and_the_default_port_of_tls(headers, reason):
    assert SameOriginCheck(host="127.0.0.1", port=443, scheme="https").refusal(headers) == reason
