"""Sends and receives on all connections of a load until everything is said.

Rules of this file: it is the only one that waits for sockets and moments together. A connection whose pace needs no
clock is a loop of its own: answers make room for requests. Where requests become due by time alone, one task waits for
the next moment of all connections; answers that make something due earlier hurry it.
"""

import time
from collections.abc import Sequence

import attrs
import trio

from pipeline_broker.client.connection import Connection
from pipeline_broker.measure.load.exchange import Exchange
from pipeline_broker.measure.load.timer import Timer, precise_timer

IDLE_NS = 1_000_000_000
"""How long the task that waits for moments sleeps when no moment is known; an answer wakes it."""


@attrs.define
class _Crew:
    """How many connections still talk."""

    talking: int
    scope: trio.CancelScope

    def is_done(self) -> None:
        """One more has nothing to say."""
        self.talking -= 1
        if not self.talking:
            self.scope.cancel()


async def converse(connections: Sequence[Connection], exchanges: Sequence[Exchange]) -> None:
    """Return when every exchange is done; raises ClientError, perhaps in a group."""
    with precise_timer() as timer:
        async with trio.open_nursery() as nursery:
            crew = _Crew(len(exchanges), nursery.cancel_scope)
            now_ns = time.monotonic_ns()
            timed = any(exchange.pace.next_ns(0) is not None or exchange.is_done(now_ns) for exchange in exchanges)
            for connection, exchange in zip(connections, exchanges, strict=True):
                nursery.start_soon(_converse, connection, exchange, None if timed else crew, timer)
            if timed:
                nursery.start_soon(_keep_time, connections, exchanges, timer, nursery.cancel_scope)


async def _converse(connection: Connection, exchange: Exchange, crew: _Crew | None, timer: Timer) -> None:
    """Refill the window with every read; without a crew somebody else knows when it is over."""
    clock = time.monotonic_ns
    if crew is not None:
        now_ns = clock()
        requests = exchange.send(now_ns)
        if not requests and exchange.is_done(now_ns):  # its time was over before its turn came
            crew.is_done()
            return
        connection.send_nowait(requests)
    while True:
        data = await connection.receive()
        now_ns = clock()
        if not exchange.receive(data, now_ns):
            continue
        requests = exchange.send(now_ns)
        if requests:
            connection.send_nowait(requests)
        if crew is None:
            next_ns = exchange.pace.next_ns(exchange.in_flight)
            timer.hurry(now_ns if next_ns is None else next_ns)
        elif exchange.is_done(now_ns):
            crew.is_done()
            return


async def _keep_time(
    connections: Sequence[Connection], exchanges: Sequence[Exchange], timer: Timer, scope: trio.CancelScope
) -> None:
    while True:
        now_ns = time.monotonic_ns()
        for connection, exchange in zip(connections, exchanges, strict=True):
            requests = exchange.send(now_ns)
            if requests:
                connection.send_nowait(requests)
        if all(exchange.is_done(now_ns) for exchange in exchanges):
            scope.cancel()
            return
        moments = [exchange.pace.next_ns(exchange.in_flight) for exchange in exchanges]
        await timer.wait_until(min((it for it in moments if it is not None), default=now_ns + IDLE_NS))
