"""Runs a load against a broker and returns what was measured.

Rules of this file: the loop of one connection is read, stamp, account, send, with nothing per request but what
`exchange` does; connections are opened before the first request is sent; every run has a bound after which it is a
LoadError, so that a dead broker is an error and never a hang. The garbage collector rests during a run.

Warm-up and measurement are two loops, and the first is drained before the second starts: the measured requests are then
all that is in flight from the first one sent to the last one answered, so that their number over that time is the
broker's rate however long the queue is. (With a warm-up cut out of one loop, a broker that takes 0.6 s for a window
would seem three times slower than it is.)
"""

import contextlib
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import attrs
import trio

from pipeline_broker.load.connection import Connection, connect
from pipeline_broker.load.control import Target, prepare
from pipeline_broker.load.exchange import ClosedLoop, Exchange, LoadError
from pipeline_broker.load.ring import ClientRow, rows_of
from pipeline_broker.load.template import produce_template

Options = TypeVar("Options")

WARMUP_IN_FLIGHT = 8  # deep enough to warm up everything, and drained soon


@attrs.frozen(slots=True)
class LoadOptions:
    """A closed loop: so many connections, each with so many requests in flight, for so long."""

    host: str
    port: int
    connections: int = 1
    in_flight: int = 1
    record_size: int = 100
    seconds: float = 5.0  # warm-up included; longer only where a window takes longer
    warmup_s: float = 0.5
    topic: str = "load"
    partitions: int = 4
    timeout_s: float = 30.0  # for preparing, and again for the answers that are missing at the end


Finish = Callable[[Sequence[Exchange], int, int], "LoadResult"]


@attrs.frozen(slots=True)
class LoadResult:
    """The rows of a run and how busy the client was while it ran."""

    rows: list[ClientRow]
    started_ns: int
    ended_ns: int
    client_cpu_share: float


def run_load(options: LoadOptions) -> LoadResult:
    """Run a closed loop to its end."""
    return run_to_end(closed_loop, options)


def run_to_end(function: Callable[[Options], Awaitable[LoadResult]], options: Options) -> LoadResult:
    """A Trio program of its own, in which Ctrl-C is a KeyboardInterrupt and not a group with one in it."""
    try:
        return trio.run(function, options)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None


async def closed_loop(options: LoadOptions) -> LoadResult:
    """Run a closed loop inside a running Trio program."""
    target = await prepared(options.host, options.port, options.topic, options.partitions, options.timeout_s)
    template = produce_template(target, options.record_size)
    exchanges = [ClosedLoop(template, options.in_flight, index) for index in range(options.connections)]
    async with connections_to(options.host, options.port, len(exchanges), options.timeout_s) as connections:
        with measuring() as finish:
            start_ns = time.monotonic_ns()
            with bounded(options.seconds + options.timeout_s, exchanges):
                if options.warmup_s > 0:
                    await _drive(connections, exchanges, min(options.in_flight, WARMUP_IN_FLIGHT), options.warmup_s)
                measured_from_ns = time.monotonic_ns()
                await _drive(connections, exchanges, options.in_flight, options.seconds - options.warmup_s)
            return finish(exchanges, start_ns, measured_from_ns)


async def _drive(
    connections: Sequence[Connection], exchanges: Sequence[ClosedLoop], in_flight: int, seconds: float
) -> None:
    """Keep so many requests in flight on every connection for about so long, the last answers included."""
    stop_ns = time.monotonic_ns() + round(seconds * 1e9)
    async with trio.open_nursery() as nursery:
        for connection, exchange in zip(connections, exchanges, strict=True):
            exchange.window = in_flight
            nursery.start_soon(_keep_in_flight, connection, exchange, stop_ns)


async def _keep_in_flight(connection: Connection, exchange: ClosedLoop, stop_ns: int) -> None:
    """Refill the window with every read, as long as an answer can be expected in time; wait for what is missing."""
    clock, sent_ns, received = time.monotonic_ns, exchange.sent_ns, exchange.received
    connection.send_nowait(exchange.refill(clock()))
    while True:
        data = await connection.receive()
        now_ns = clock()
        if exchange.receive(data, now_ns):
            if now_ns + (now_ns - sent_ns[received[-1]]) < stop_ns:
                connection.send_nowait(exchange.refill(now_ns))
            elif exchange.in_flight == 0:
                return


async def prepared(host: str, port: int, topic: str, partitions: int, timeout_s: float) -> Target:
    """The topic, ready, or a LoadError after the given time."""
    with one_error():
        with trio.move_on_after(timeout_s):
            return await prepare(host, port, topic, partitions)
        raise LoadError(f"{host}:{port} did not get topic {topic} ready within {timeout_s:g} s")


@contextlib.asynccontextmanager
async def connections_to(host: str, port: int, count: int, timeout_s: float) -> AsyncIterator[list[Connection]]:
    """So many connections, with their writers running."""
    with one_error():
        async with contextlib.AsyncExitStack() as stack, trio.open_nursery() as nursery:
            connections: list[Connection] = []
            with trio.move_on_after(timeout_s) as scope:
                while len(connections) < count:
                    connections.append(await stack.enter_async_context(connect(host, port)))
            if scope.cancelled_caught:
                raise LoadError(f"{host}:{port} accepted {len(connections)} of {count} connections in {timeout_s:g} s")
            for connection in connections:
                nursery.start_soon(connection.run_writer)
            yield connections
            nursery.cancel_scope.cancel()


@contextlib.contextmanager
def measuring() -> Iterator[Finish]:
    """Keep the garbage collector away and count the client's own CPU time; gives a function that makes the result."""
    gc.collect()
    gc.disable()
    began_ns, cpu_began_ns = time.monotonic_ns(), time.process_time_ns()

    def finish(exchanges: Sequence[Exchange], started_ns: int, measured_from_ns: int) -> LoadResult:
        ended_ns = time.monotonic_ns()
        share = (time.process_time_ns() - cpu_began_ns) / max(1, ended_ns - began_ns)
        rows = [
            row
            for connection, exchange in enumerate(exchanges)
            for row in rows_of(exchange, connection, measured_from_ns)
        ]
        return LoadResult(rows, started_ns, ended_ns, share)

    try:
        yield finish
    finally:
        gc.enable()


@contextlib.contextmanager
def bounded(seconds: float, exchanges: Sequence[Exchange]) -> Iterator[None]:
    """Give up after so long, with a LoadError that tells how many answers were missing."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        missing = sum(exchange.in_flight for exchange in exchanges)
        raise LoadError(f"{missing} requests were not answered within {seconds:g} s")


@contextlib.contextmanager
def one_error() -> Iterator[None]:
    """Let the first LoadError stand for the group that nurseries make of it."""
    try:
        yield
    except ExceptionGroup as group:
        ours, others = group.split(LoadError)
        if ours is None or others is not None:
            raise
        error: Exception = ours
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None
