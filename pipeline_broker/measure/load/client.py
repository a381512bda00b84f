"""The load client: connects to a broker, warms it up, and runs a closed or an open loop for a given time.

A closed loop warms up and measures in two separate loops. The first is drained before the second starts, so all
requests in flight are measured ones. Their number over the elapsed time is the broker's rate for any queue length.
A warm-up that is only cut out of one loop fails here: a broker that takes 0.6 s for a window looks three times slower
than it is. An open loop is not interrupted. Its requests that were intended for the warm-up are not counted.
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
LEAD_NS = 20_000_000  # from the start of the clock to the first intended time of an open loop


@attrs.frozen(slots=True)
class LoadResult:
    """The rows of a run, and the processor time of the client as a share of one core."""

    rows: list[ClientRow]
    started_ns: int
    ended_ns: int
    client_cpu_share: float


@attrs.define
class Clock:
    started_ns: int = 0
    ended_ns: int = 0
    cpu_ns: int = 0

    @property
    def cpu_share(self) -> float:  # of one core
        return self.cpu_ns / max(1, self.ended_ns - self.started_ns)


@attrs.frozen(slots=True)
class Driven(Generic[Recording]):
    """The outcome of a run: a recorder and an exchange for each connection, and the requests that read."""

    recorders: list[Recording]
    exchanges: list[Exchange]
    reads: list[Reads]
    clock: Clock


def run_load(options: LoadOptions) -> LoadResult:
    return run_to_end(load_rows, options)


def run_to_end(function: Callable[[Options], Awaitable[Result]], options: Options) -> Result:
    """Run an async function in a new Trio program, and return its result.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C. Trio's nurseries would raise a group that contains it.
    """
    try:
        return trio.run(function, options)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None


async def load_rows(options: LoadOptions) -> LoadResult:
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
        record: returns a new recorder for a connection that sends the given requests.
        wait_for_start: waits until all processes are connected; returns their common start, ns of the monotonic clock.

    Raises:
        ClientError: the options contradict each other, or the broker is unreachable, refuses, or stops answering.
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
    # The warm-up's window is small even if the load's is not: it must be drained before the measurement starts.
    window = min(options.in_flight, WARMUP_IN_FLIGHT)
    exchanges = [
        Exchange(it, _closed_pace(options, window, warm_ns), recorder)
        for it, recorder in zip(requests, recorders, strict=True)
    ]
    # A broker that accepts requests and never answers would block the load forever.
    with bounded(limit_s, exchanges):
        if options.warmup_s > 0:
            await converse(connections, exchanges)
        from_ns = time.monotonic_ns()
        _measure_from(from_ns, recorders)
        stop_ns = from_ns + round((options.seconds - options.warmup_s) * 1e9)
        for exchange in exchanges:
            # The exchanges continue, because recorders expect correlation ids that never restart.
            exchange.pace = _closed_pace(options, options.in_flight, stop_ns, options.think_s)
        await converse(connections, exchanges)
    return exchanges


@contextlib.contextmanager
def _hanging_up(options: LoadOptions, began_ns: int, connections: Sequence[Connection]) -> Iterator[None]:
    if options.hang_up_s is None:
        yield
        return
    lead_s = max(0, began_ns - time.monotonic_ns()) / NS_PER_S
    # A broker that does not keep the pace has a long queue by now. Draining it could take far longer than the run.
    with trio.move_on_after(lead_s + options.seconds + options.hang_up_s) as scope:
        yield
    if scope.cancelled_caught:
        for connection in connections:
            # Otherwise the broker would process the requests that it has not read yet.
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
    """Create the topic if necessary, wait until its partitions have leaders, and return it.

    Raises:
        ClientError: the topic is not ready after `timeout_s`, or the broker refuses.
    """
    with one_error():
        with trio.move_on_after(timeout_s):
            return await prepare(host, port, topic, partitions, security)
        raise ClientError(f"{host}:{port} did not get topic {topic} ready within {timeout_s:g} s")


@contextlib.asynccontextmanager
async def connections_to(
    nodes: Sequence[Node], timeout_s: float, security: ClientSecurity = PLAINTEXT
) -> AsyncIterator[list[Connection]]:
    """Open a connection to each node, all before the block starts, and run their writers. Close them at the end.

    Raises:
        ClientError: a broker accepted fewer connections in `timeout_s` seconds, or refused one.
    """
    with one_error():
        async with contextlib.AsyncExitStack() as stack, trio.open_nursery() as nursery:
            connections: list[Connection] = []
            # All connections are open before the first request, so their setup is not measured.
            with trio.move_on_after(timeout_s) as scope:
                while len(connections) < len(nodes):
                    node = nodes[len(connections)]
                    connections.append(
                        await stack.enter_async_context(connect_securely(node.host, node.port, security))
                    )
            if scope.cancelled_caught:
                node = nodes[len(connections)]
                raise ClientError(
                    f"{node.host}:{node.port} and others accepted only {len(connections)} of {len(nodes)} connections "
                    f"in {timeout_s:g} s"
                )
            for connection in connections:
                nursery.start_soon(connection.run_writer)
            yield connections
            nursery.cancel_scope.cancel()


@contextlib.contextmanager
def measuring() -> Iterator[Clock]:
    """Disable the garbage collector during the block, and yield a clock.

    At the end of the block the clock has its duration and the client's own processor time.
    """
    # A collection in the middle of a run would pause the client, and its pause would count as latency of the broker.
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
    """Raise a ClientError with the number of unanswered requests if the block takes longer than `seconds`."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        missing = sum(exchange.in_flight for exchange in exchanges)
        raise ClientError(f"{missing} requests were not answered within {seconds:g} s")


@contextlib.contextmanager
def one_error() -> Iterator[None]:
    """Raise the first ClientError of a group in place of the group.

    A group that also contains other exceptions is raised unchanged.
    """
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
