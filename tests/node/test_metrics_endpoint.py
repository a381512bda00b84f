"""The metrics endpoint answers one request; tests/web tests its limits."""

import collections
import contextlib
import itertools
import re
import socket
import threading
import time

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.node.metrics_endpoint import (
    LoopIdleTime,
    drain_regularly,
    serve_metrics,
)
from pipeline_broker.node.observers import Observers
from pipeline_broker.telemetry.request_metrics import DRAIN_SECONDS
from stages.loop_turns import LoopTurns
from stages.mode import PIPELINED
from stages.socket_server import SocketServer
from stages.testing.memory_storage import MemoryStorage
from tests.apis.desk import Desk

EDGE_BYTES = 64 << 20
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


def render_text():
    yield
    return TEXT.encode()


def with_endpoint(scenario, render=render_text, names=(), not_ready=lambda: None):
    """Run `scenario(port)` against an endpoint."""

    async def main():
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                port = await nursery.start(
                    serve_metrics, "127.0.0.1", 0, render, ByteBudget(EDGE_BYTES), names, not_ready
                )
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
    ("line", "reason", "status", "body"),
    [
        (b"GET /healthz HTTP/1.1", None, 200, "ok\n"),
        (b"GET /readyz HTTP/1.1", None, 200, "ok\n"),
        (b"HEAD /readyz HTTP/1.1", None, 200, ""),
        (b"GET /healthz HTTP/1.1", "it stands by", 200, "ok\n"),
        (b"GET /readyz HTTP/1.1", "it stands by", 503, '{"error":"it stands by"}'),
        (b"GET /metrics HTTP/1.1", "it stands by", 200, TEXT),
        (b"POST /readyz HTTP/1.1", None, 405, '{"error":"unsupported method; use GET"}'),
        (b"GET /healthz/x HTTP/1.1", None, 404, '{"error":"unknown path; use one of /metrics, /healthz, /readyz"}'),
    ],
)
def test_a_broker_is_healthy_while_it_answers_and_ready_without_a_reason_against_it(line, reason, status, body):
    found, _, text = with_endpoint(lambda port: exchange(port, request(line)), not_ready=lambda: reason)

    assert (found, text) == (status, body)


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
def test_every_other_request_gets_its_status(line, status):
    found, headers, body = with_endpoint(lambda port: exchange(port, request(line)))

    assert found == status
    assert headers.get("allow") == ("get" if status == 405 else None)
    assert bool(body) == (not line.startswith(b"HEAD"))


@pytest.mark.parametrize(
    ("line", "host", "status"),
    [
        (b"GET /metrics HTTP/1.1", b"127.0.0.1:9308", 200),
        (b"GET /metrics HTTP/1.1", b"192.0.2.7:19308", 200),
        (b"GET /metrics HTTP/1.1", b"[2001:db8::1]:9308", 200),
        (b"GET /metrics HTTP/1.1", b"LOCALHOST:1", 200),
        (b"GET /metrics HTTP/1.1", b"Broker.example.com", 200),
        (b"GET /metrics HTTP/1.1", b"evil.test:9308", 403),
        (b"GET /other HTTP/1.1", b"evil.test:9308", 403),
        (b"GET /metrics HTTP/1.1", b"127.0.0.1.evil.test", 403),
        (b"GET /metrics HTTP/1.1", b"evil.test@127.0.0.1", 403),
        (b"GET /metrics HTTP/1.1", b"", 403),
        (b"GET /metrics HTTP/1.0", None, 200),
    ],
)
def test_a_host_is_an_address_or_a_name_of_the_broker(line, host, status):
    head = b"\r\n".join((line, *(() if host is None else (b"Host: " + host,)), b"", b""))
    assert with_endpoint(lambda port: exchange(port, head), names=["broker.Example.com"])[0] == status


def test_a_body_is_not_read_beyond_a_bound_and_the_answer_still_arrives():
    head = request(b"POST /metrics HTTP/1.1", b"Content-Length: 1000000000")
    status, _, _ = with_endpoint(lambda port: exchange(port, head + bytes(20_000)))

    assert status == 413


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\n", request()], ids=["silent", "half", "deaf"])
def test_a_flood_of_connections_does_not_stop_scrapers(broker_process, sent):
    """Clients keep taking every slot. Scrapers may use the advertised host name, too."""
    settings = ["advertised.listeners=PLAINTEXT://broker.example.com:9092"]
    broker = broker_process(arguments=["--metrics", "0", "--metrics-allowed-host", "other.test"], settings=settings)
    port = int(re.search(r"metrics on http://127.0.0.1:(\d+)/", broker.stderr)[1])
    ending = threading.Event()

    def flood():
        held = collections.deque()
        while not ending.wait(0.002):
            held.append(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(OSError):
                held[-1].sendall(sent)
            if len(held) > 100:
                held.popleft().close()
        for connection in held:
            connection.close()

    stranger = threading.Thread(target=flood)
    stranger.start()
    try:
        for host in (b"broker.example.com", b"other.test", b"127.0.0.1") * 5:
            head = b"GET /metrics HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
            with socket.create_connection(("127.0.0.1", port), timeout=5) as scraper:
                scraper.sendall(head)
                received = b"".join(iter(lambda scraper=scraper: scraper.recv(65536), b""))
            assert received.startswith(b"HTTP/1.1 200 ")
    finally:
        ending.set()
        stranger.join()


def test_a_failure_to_render_is_answered_and_logged_and_the_next_scrape_served(caplog):
    texts = iter([None, TEXT])

    def render():
        text = next(texts)
        yield
        if text is None:
            raise ValueError("no figures")
        return text.encode()

    async def scenario(port):
        return [(await exchange(port, request()))[0] for _ in range(2)]

    assert with_endpoint(scenario, render) == [500, 200]
    assert "no figures" in caplog.text


def test_idle_time_is_measured_on_an_idle_and_on_a_busy_loop(monkeypatch):
    """Here every interval is measured, and takes an eighth of the time."""
    interval_seconds = DRAIN_SECONDS / 8
    monkeypatch.setattr("pipeline_broker.node.metrics_endpoint.INTERVALS_FOR_ONE_OBSERVED", 1)
    monkeypatch.setattr("pipeline_broker.node.metrics_endpoint.DRAIN_SECONDS", interval_seconds)

    async def rest():
        await trio.sleep(interval_seconds)

    def shares(turn):
        idle, drained = LoopIdleTime(LoopTurns()), []

        def drain():
            drained.append((idle.idle_ns, idle.observed_ns))
            yield

        async def main():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drain_regularly, drain, idle)
                while len(drained) < 3:
                    await turn()
                nursery.cancel_scope.cancel()

        trio.run(main)
        assert drained[0][1] < drained[1][1] < drained[2][1]
        return [idle_ns / observed_ns for idle_ns, observed_ns in drained]

    assert min(shares(rest)) > 0.9
    assert max(shares(trio.lowlevel.checkpoint)) < 0.1


def test_a_poll_without_timeout_is_not_idle_time(monkeypatch):
    times = iter(range(100, 10_000, 100))
    monkeypatch.setattr("pipeline_broker.node.metrics_endpoint.now_ns", lambda: next(times))
    idle = LoopIdleTime(LoopTurns())
    for seconds in (1.0, 0.0, 0.0):
        idle.before_io_wait(seconds)
        idle.after_io_wait(seconds)
    assert idle.idle_ns == 100


def test_a_long_turn_is_not_attributed_to_the_next_task(monkeypatch):
    class Step:
        def __init__(self, name):
            self.name = name

    times = iter([0, 0, 20_000_000, 20_001_000, 20_002_000])
    monkeypatch.setattr("pipeline_broker.node.metrics_endpoint.now_ns", lambda: next(times))
    turns = LoopTurns()
    idle = LoopIdleTime(turns)
    idle.after_io_wait(0.0)
    for name in ("keeps", "follows", "follows again"):
        idle.after_task_step(Step(f"stages.{name}"))
    assert [it.name for it in turns.statistics() if it.long_count] == ["stages.keeps"]


def test_a_task_with_long_turns_is_noted_in_measured_intervals():
    turns = LoopTurns()
    idle = LoopIdleTime(turns)

    async def keep(seconds):
        await trio.lowlevel.checkpoint()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass

    async def main():
        await keep(0.02)  # not measured
        assert len(turns.statistics()) == 1
        with idle.observing():
            await trio.lowlevel.checkpoint()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep, 0.02, name="pipeline_broker.node.upkeep.LogMaintenance.retain")
                compiled = "<bound method Pool._handle of <stages.pool.Pool object at 0x7fb5a0682200>>"
                nursery.start_soon(keep, 0.01, name=compiled)
                for number in range(3):
                    nursery.start_soon(keep, 0.01, name=f"127.0.0.1:1-127.0.0.1:2-{number}")

    trio.run(main)
    found = {it.name: it for it in turns.statistics()}
    assert found["pipeline_broker.node.upkeep.LogMaintenance.retain"].longest_seconds >= 0.02
    assert found["pipeline_broker.node.upkeep.LogMaintenance.retain"].long_count == 1
    assert found["stages.pool.Pool._handle"].long_count == 1
    assert found["connection"].long_count == 3


def test_the_loop_is_measured_in_some_intervals_only(monkeypatch):
    """The first interval, and random ones."""
    draws = itertools.chain([3, 0, 1, 2], itertools.repeat(1))
    monkeypatch.setattr("pipeline_broker.node.metrics_endpoint.random.randrange", lambda _: next(draws))
    idle, observed = LoopIdleTime(LoopTurns()), []

    def drain():
        observed.append(idle.observed_ns)
        yield

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain_regularly, drain, idle)
            while len(observed) < 4:
                await trio.sleep(DRAIN_SECONDS)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert 0 < observed[0] == observed[1] < observed[2] == observed[3]


def test_a_servers_metrics_are_served_while_it_is_observed(capsys, tmp_path):
    """Like in a broker, by the observers, with the statistics of an idle server."""
    desk = Desk()
    server = SocketServer(PIPELINED, None, MemoryStorage())  # it is only asked for its statistics
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
