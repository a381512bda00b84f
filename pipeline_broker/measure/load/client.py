"""Runs a load against a broker.

Rules of this file: the loop of one connection is read, stamp, account, send, with nothing per request but what
`exchange` does; connections are opened before the first request is sent; every run has a bound after which it is a
ClientError, so that a dead broker is an error and never a hang. The garbage collector rests during a run.

Warm-up and measurement of a closed loop are two loops, and the first is drained before the second starts: the measured
requests are then all that is in flight from the first one sent to the last one answered, so that their number over
that time is the broker's rate however long the queue is. (With a warm-up cut out of one loop, a broker that takes
0.6 s for a window would seem three times slower than it is.) An open loop goes on, and what was meant for the time of
the warm-up is not counted.
"""

import contextlib
import gc
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Generic, TypeVar

import attrs
import trio

from pipeline_broker.client.connection import Connection
from pipeline_broker.client.control import Node, Target, prepare
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.secure_connection import connect_securely
from pipeline_broker.client.security import PLAINTEXT, ClientSecurity, read_security
from pipeline_broker.measure.load.conversation import converse
from pipeline_broker.measure.load.exchange import Exchange
from pipeline_broker.measure.load.options import Arrivals, LoadOptions
from pipeline_broker.measure.load.pace import NS_PER_S, ClosedPace, OpenPace, Pace, constant_moments, poisson_moments
from pipeline_broker.measure.load.recorders import Recorder, RowRecorder
from pipeline_broker.measure.load.requests import Reads, Requests
from pipeline_broker.measure.load.requests_of_load import WARMUP_IN_FLIGHT, requests_of
from pipeline_broker.measure.load.transactions import TransactionPace
from pipeline_broker.traces.client_rows import ClientRow

Options = TypeVar("Options")
Result = TypeVar("Result")
Recording = TypeVar("Recording", bound=Recorder)
LEAD_NS = 20_000_000  # from the start of the clock to the first moment of an open loop


@attrs.frozen(slots=True)
class LoadResult:
    """The rows of a run and how busy the client was while it ran."""

    rows: list[ClientRow]
    started_ns: int
    ended_ns: int
    client_cpu_share: float


@attrs.define
class Clock:
    """When a run began and ended, and the client's own processor time in it."""

    started_ns: int = 0
    ended_ns: int = 0
    cpu_ns: int = 0

    @property
    def cpu_share(self) -> float:
        """Of one core."""
        return self.cpu_ns / max(1, self.ended_ns - self.started_ns)


@attrs.frozen(slots=True)
class Driven(Generic[Recording]):
    """What a run leaves: of each connection what it recorded, sent and received."""

    recorders: list[Recording]
    exchanges: list[Exchange]
    reads: list[Reads]
    clock: Clock


def run_load(options: LoadOptions) -> LoadResult:
    """Run a load to its end, and keep a row of every request."""
    return run_to_end(load_rows, options)


def run_to_end(function: Callable[[Options], Awaitable[Result]], options: Options) -> Result:
    """A Trio program of its own, in which Ctrl-C is a KeyboardInterrupt and not a group with one in it."""
    try:
        return trio.run(function, options)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None


async def load_rows(options: LoadOptions) -> LoadResult:
    """The same inside a running Trio program."""
    driven = await drive(options, lambda _: RowRecorder(is_open=options.rate_per_s is not None))
    rows = [row for index, recorder in enumerate(driven.recorders) for row in recorder.rows(index)]
    clock = driven.clock
    return LoadResult(rows, clock.started_ns, clock.ended_ns, clock.cpu_share)


async def drive(
    options: LoadOptions,
    record: Callable[[Requests], Recording],
    wait_for_start: Callable[[], Awaitable[int]] | None = None,
) -> Driven[Recording]:
    """Run a load.

    Args:
        record: makes the recorder of a connection that sends such requests.
        wait_for_start: waits until all processes are connected; gives the common start, ns of the monotonic clock.

    Raises:
        ClientError: the broker cannot be reached, refuses, or goes away.
    """
    options.check()
    security = read_security(dict(options.security))
    target = await prepared(options.host, options.port, options.topic, options.partitions, options.timeout_s, security)
    nodes = [target.nodes[index % len(target.nodes)] for index in range(options.connections)]
    with one_error():
        requests, reads = await requests_of(options, target, nodes, security)
    async with connections_to(nodes, options.timeout_s, security) as connections:
        start_ns = None if wait_for_start is None else await wait_for_start()
        with measuring() as clock:
            recorders = [record(it) for it in requests]
            exchanges = await _run(options, connections, requests, recorders, start_ns)
    return Driven(recorders, exchanges, reads, clock)


async def _run(
    options: LoadOptions,
    connections: Sequence[Connection],
    requests: Sequence[Requests],
    recorders: Sequence[Recorder],
    start_ns: int | None,
) -> list[Exchange]:
    limit_s = options.seconds + options.timeout_s
    if options.rate_per_s is not None:
        began_ns = (time.monotonic_ns() if start_ns is None else start_ns) + LEAD_NS
        from_ns = began_ns + round(options.warmup_s * 1e9)
        exchanges = [
            Exchange(it, _open_pace(options, began_ns, index), recorder, is_answered=options.acks != 0)
            for index, (it, recorder) in enumerate(zip(requests, recorders, strict=True))
        ]
        _measure_from(from_ns, recorders)
        with bounded(limit_s, exchanges), _hanging_up(options, began_ns, connections):
            await converse(connections, exchanges)
        return exchanges
    warm_ns = time.monotonic_ns() + round(options.warmup_s * 1e9)
    window = min(options.in_flight, WARMUP_IN_FLIGHT)
    exchanges = [
        Exchange(it, _closed_pace(options, window, warm_ns), recorder)
        for it, recorder in zip(requests, recorders, strict=True)
    ]
    with bounded(limit_s, exchanges):
        if options.warmup_s > 0:
            await converse(connections, exchanges)
        from_ns = time.monotonic_ns()
        _measure_from(from_ns, recorders)
        stop_ns = from_ns + round((options.seconds - options.warmup_s) * 1e9)
        for exchange in exchanges:
            exchange.pace = _closed_pace(options, options.in_flight, stop_ns, options.think_s)
        await converse(connections, exchanges)
    return exchanges


@contextlib.contextmanager
def _hanging_up(options: LoadOptions, began_ns: int, connections: Sequence[Connection]) -> Iterator[None]:
    """Leave in time where the options say so: a broker that does not keep the pace would take long for the rest."""
    if options.hang_up_s is None:
        yield
        return
    lead_s = max(0, began_ns - time.monotonic_ns()) / NS_PER_S
    with trio.move_on_after(lead_s + options.seconds + options.hang_up_s) as scope:
        yield
    if scope.cancelled_caught:
        for connection in connections:
            connection.reset_on_close()


def _measure_from(moment_ns: int, recorders: Sequence[Recorder]) -> None:
    for recorder in recorders:
        recorder.measured_from_ns = moment_ns


def _closed_pace(options: LoadOptions, window: int, stop_ns: int, think_s: float = 0.0) -> Pace:
    if options.transaction_requests:
        return TransactionPace(window, stop_ns, options.transaction_requests)
    return ClosedPace(window, stop_ns, round(think_s * 1e9))


def _open_pace(options: LoadOptions, began_ns: int, index: int) -> Pace:
    assert options.rate_per_s is not None
    share, shares = options.share + index * options.shares, options.connections_together or options.connections
    if options.arrivals is Arrivals.POISSON:
        randomness = random.Random(f"{options.seed} {share}")  # noqa: S311 - the moments of a load
        moments = poisson_moments(began_ns, options.rate_per_s, shares, randomness)
    else:
        moments = constant_moments(began_ns, options.rate_per_s, share, shares)
    return OpenPace(moments, options.in_flight, began_ns + round(options.seconds * 1e9))


async def prepared(
    host: str, port: int, topic: str, partitions: int, timeout_s: float, security: ClientSecurity = PLAINTEXT
) -> Target:
    """The topic, ready, or a ClientError after the given time."""
    with one_error():
        with trio.move_on_after(timeout_s):
            return await prepare(host, port, topic, partitions, security)
        raise ClientError(f"{host}:{port} did not get topic {topic} ready within {timeout_s:g} s")


@contextlib.asynccontextmanager
async def connections_to(
    nodes: Sequence[Node], timeout_s: float, security: ClientSecurity = PLAINTEXT
) -> AsyncIterator[list[Connection]]:
    """A connection to each, with their writers running."""
    with one_error():
        async with contextlib.AsyncExitStack() as stack, trio.open_nursery() as nursery:
            connections: list[Connection] = []
            with trio.move_on_after(timeout_s) as scope:
                while len(connections) < len(nodes):
                    node = nodes[len(connections)]
                    connections.append(
                        await stack.enter_async_context(connect_securely(node.host, node.port, security))
                    )
            if scope.cancelled_caught:
                node = nodes[len(connections)]
                raise ClientError(
                    f"{node.host}:{node.port} and others accepted {len(connections)} of {len(nodes)} connections in "
                    f"{timeout_s:g} s"
                )
            for connection in connections:
                nursery.start_soon(connection.run_writer)
            yield connections
            nursery.cancel_scope.cancel()


@contextlib.contextmanager
def measuring() -> Iterator[Clock]:
    """Keep the garbage collector away and count the client's own processor time."""
    gc.collect()
    gc.disable()
    clock = Clock(time.monotonic_ns())
    cpu_began_ns = time.process_time_ns()
    try:
        yield clock
    finally:
        clock.cpu_ns = time.process_time_ns() - cpu_began_ns
        clock.ended_ns = time.monotonic_ns()
        gc.enable()


@contextlib.contextmanager
def bounded(seconds: float, exchanges: Sequence[Exchange]) -> Iterator[None]:
    """Give up after so long, with a ClientError that tells how many answers were missing."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        missing = sum(exchange.in_flight for exchange in exchanges)
        raise ClientError(f"{missing} requests were not answered within {seconds:g} s")


@contextlib.contextmanager
def one_error() -> Iterator[None]:
    """Let the first ClientError stand for the group that nurseries make of it."""
    try:
        yield
    except ExceptionGroup as group:
        ours, others = group.split(ClientError)
        if ours is None or others is not None:
            raise
        error: Exception = ours
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None
