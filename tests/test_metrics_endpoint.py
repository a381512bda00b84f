"""The metrics endpoint answers one kind of request, and bounds every other."""

import itertools
import socket
import sys

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.metrics_endpoint import (
    CONNECTIONS_MAX,
    HEADER_BYTES_MAX,
    LINGER_SECONDS,
    RECEIVE_BYTES,
    REQUEST_SECONDS,
    RESPONSE_SECONDS,
    LoopIdleTime,
    MetricsUnavailableError,
    answer,
    drain_regularly,
    serve_metrics,
)
from pipeline_broker.observers import Observers
from pipeline_broker.telemetry.request_metrics import DRAIN_SECONDS
from stages.mode import PIPELINED
from stages.socket_server import SocketServer
from tests.apis.desk import Desk

TEXT = "# HELP up Whether it is.\n# TYPE up gauge\nup 1\n"


async def receive_all(stream):
    return b"".join([bytes(data) async for data in stream])


async def exchange(port, *pieces):
    """Send pieces over loopback and return status, headers and body."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        for piece in pieces:
            await stream.send_all(piece)
        return split(await receive_all(stream))


def split(response):
    head, _, body = response.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body.decode()


def with_endpoint(scenario, render=lambda: TEXT):
    """Run `scenario(port)` against an endpoint."""

    async def main():
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                port = await nursery.start(serve_metrics, "127.0.0.1", 0, render)
                result = await scenario(port)
                nursery.cancel_scope.cancel()
        return result

    return trio.run(main)


def request(line=b"GET /metrics HTTP/1.1", *headers):
    return b"\r\n".join((line, b"Host: localhost", *headers, b"", b""))


def test_get_metrics_returns_what_is_rendered_as_prometheus_text():
    status, headers, body = with_endpoint(lambda port: exchange(port, request()))

    assert (status, body) == (200, TEXT)
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["connection"] == "close"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET / HTTP/1.1", 404),
        (b"GET /metrics/x HTTP/1.1", 404),
        (b"POST / HTTP/1.1", 404),
        (b"GET /metrics?name=up HTTP/1.1", 200),
        (b"GET /metrics HTTP/1.0", 200),
        (b"POST /metrics HTTP/1.1", 405),
        (b"HEAD /metrics HTTP/1.1", 405),
        (b"DELETE /metrics HTTP/1.1", 405),
        (b"\x16\x03\x01\x02\x00", 400),
        (b"GET /metrics", 400),
    ],
)
def test_everything_else_gets_its_status(line, status):
    found, headers, body = with_endpoint(lambda port: exchange(port, request(line)))

    assert found == status
    assert headers.get("allow") == ("get" if status == 405 else None)
    assert bool(body) == (not line.startswith(b"HEAD"))


def test_a_body_is_not_read_beyond_a_bound_and_the_answer_still_arrives():
    head = request(b"POST /metrics HTTP/1.1", b"Content-Length: 1000000000")
    status, _, _ = with_endpoint(lambda port: exchange(port, head + bytes(20_000)))

    assert status == 405


def test_a_header_that_is_too_large_is_refused():
    head = request(b"GET /metrics HTTP/1.1", b"X: " + b"x" * (HEADER_BYTES_MAX + RECEIVE_BYTES))
    status, _, body = with_endpoint(lambda port: exchange(port, head))

    assert status == 431
    assert body


def test_a_client_that_goes_away_harms_nobody():
    async def scenario(port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.aclose()
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(b"GET /met")
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closing it resets it
        await stream.aclose()
        return await exchange(port, request())

    assert with_endpoint(scenario)[0] == 200


def test_a_failure_to_render_is_answered_and_logged_and_the_next_scrape_served(caplog):
    texts = iter([None, TEXT])

    def render():
        text = next(texts)
        if text is None:
            raise ValueError("no figures")
        return text

    async def scenario(port):
        return [(await exchange(port, request()))[0] for _ in range(2)]

    assert with_endpoint(scenario, render) == [500, 200]
    assert "no figures" in caplog.text


def test_more_clients_than_the_bound_are_turned_away_until_one_leaves():
    async def scenario(port):
        waiting = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        try:
            refused = (await exchange(port, request()))[0]
        except (trio.BrokenResourceError, IndexError):
            refused = 0
        for stream in waiting:
            await stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        return refused, (await exchange(port, request()))[0]

    assert with_endpoint(scenario) == (0, 200)


def on_a_memory_stream(client_does):
    """Run `answer` against a client, on a clock that jumps: what the client got, and the seconds it took."""

    async def main():
        client, server = trio.testing.memory_stream_pair()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, server, lambda: TEXT)
            got = await client_does(client)
        return got, trio.current_time() - began

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_client_that_is_too_slow_with_its_request_gets_408():
    async def dribble(client):
        try:
            for byte in request():
                await client.send_all(bytes([byte]))
                await trio.sleep(REQUEST_SECONDS / 10)
        except trio.BrokenResourceError:
            pass
        return split(await receive_all(client))[0]

    status, seconds = on_a_memory_stream(dribble)

    assert status == 408
    assert seconds <= len(request()) * REQUEST_SECONDS / 10


def test_a_client_that_never_closes_is_closed():
    async def linger(client):
        await client.send_all(request())
        return split(await receive_all(client))[0]

    status, seconds = on_a_memory_stream(linger)

    assert status == 200
    assert seconds <= LINGER_SECONDS


def test_a_client_that_does_not_read_is_given_up():
    async def main():
        client, server = trio.testing.lockstep_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, server, lambda: TEXT)
            await client.send_all(request())
        return trio.current_time()

    began = trio.testing.MockClock().current_time()

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) - began <= RESPONSE_SECONDS


def test_a_port_in_use_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(MetricsUnavailableError, match=f"cannot serve metrics on 127.0.0.1:{port}: Address already"):
            trio.run(serve_metrics, "127.0.0.1", port, lambda: TEXT)


def test_without_h11_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "h11", None)

    with pytest.raises(MetricsUnavailableError, match=r"pip install 'pipeline-broker\[dashboard\]'"):
        trio.run(serve_metrics, "127.0.0.1", 0, lambda: TEXT)


def test_an_idle_loop_is_seen_as_idle_and_a_busy_one_as_busy(monkeypatch):
    """Every interval is looked at here, and the drain comes at its pace."""
    monkeypatch.setattr("pipeline_broker.metrics_endpoint.INTERVALS_FOR_ONE_OBSERVED", 1)

    async def rest():
        await trio.sleep(DRAIN_SECONDS)

    def shares(turn):
        idle, drained = LoopIdleTime(), []

        async def main():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drain_regularly, lambda: drained.append((idle.idle_ns, idle.observed_ns)), idle)
                while len(drained) < 3:
                    await turn()
                nursery.cancel_scope.cancel()

        trio.run(main)
        assert drained[0][1] < drained[1][1] < drained[2][1]
        return [idle_ns / observed_ns for idle_ns, observed_ns in drained]

    assert min(shares(rest)) > 0.9
    assert max(shares(trio.lowlevel.checkpoint)) < 0.1


def test_the_loop_is_looked_at_in_some_intervals_only(monkeypatch):
    """The first, and those that are drawn."""
    draws = itertools.chain([3, 0, 1, 2], itertools.repeat(1))
    monkeypatch.setattr("pipeline_broker.metrics_endpoint.random.randrange", lambda _: next(draws))
    idle, observed = LoopIdleTime(), []

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain_regularly, lambda: observed.append(idle.observed_ns), idle)
            while len(observed) < 4:
                await trio.sleep(DRAIN_SECONDS)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert 0 < observed[0] == observed[1] < observed[2] == observed[3]


def test_a_servers_metrics_are_served_while_it_is_observed(capsys, tmp_path):
    """As a broker does it: from the observers, with the statistics of a server that rests."""
    desk = Desk()
    server = SocketServer(PIPELINED, None, None)  # it is only asked for its statistics
    observers = Observers(PIPELINED, None, ("127.0.0.1", 0), tmp_path / "log")

    async def main():
        async with observers.observing(server, desk.broker):
            port = int(capsys.readouterr().err.rpartition(":")[2].removesuffix("/metrics\n"))
            assert desk.broker.topic_metrics is not None
            result = await exchange(port, request())
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", port)
        return result

    status, _, body = trio.run(main)
    names = {family.name for family in text_string_to_metric_families(body)}

    assert status == 200
    assert {"kafka_network_requestchannel_requestqueuesize", "pipeline_broker_commits"} <= names
    assert desk.broker.topic_metrics is None
