"""The send and receive loops of all connections of a load.

In a closed loop each connection has a task of its own: an answer makes a slot free, and the task fills it. If the pace
depends on time, one more task waits for the next intended time of all connections.
"""

import time
from collections.abc import Sequence

import attrs
import trio

from pipeline_broker.client.connection import Connection
from pipeline_broker.measure.load.exchange import Exchange
from pipeline_broker.measure.load.timer import Timer, precise_timer

IDLE_NS = 1_000_000_000  # the wait of `_keep_time` while no request has an intended time; an answer shortens it


@attrs.define
class _OpenConversations:
    count: int
    scope: trio.CancelScope

    def end_one(self) -> None:
        self.count -= 1
        if not self.count:
            self.scope.cancel()


async def converse(connections: Sequence[Connection], exchanges: Sequence[Exchange]) -> None:
    """Send and receive on each connection until its exchange is done.

    Raises:
        ClientError: a connection failed or received an invalid answer. Nurseries may wrap it in a group.
    """
    with precise_timer() as timer:
        async with trio.open_nursery() as nursery:
            open_conversations = _OpenConversations(len(exchanges), nursery.cancel_scope)
            now_ns = time.monotonic_ns()
            # If an exchange is done already, no answer will arrive to end its task, so `_keep_time` ends the load.
            timed = any(exchange.pace.next_ns(0) is not None or exchange.is_done(now_ns) for exchange in exchanges)
            for connection, exchange in zip(connections, exchanges, strict=True):
                nursery.start_soon(_converse, connection, exchange, None if timed else open_conversations, timer)
            if timed:
                nursery.start_soon(_keep_time, connections, exchanges, timer, nursery.cancel_scope)


async def _converse(
    connection: Connection, exchange: Exchange, open_conversations: _OpenConversations | None, timer: Timer
) -> None:
    """Refill the window after each read. Without `open_conversations`, `_keep_time` decides when the load ends."""
    clock = time.monotonic_ns
    if open_conversations is not None:
        now_ns = clock()
        requests = exchange.send(now_ns)
        if not requests and exchange.is_done(now_ns):  # the stop time passed before this task ran
            open_conversations.end_one()
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
        if open_conversations is None:
            next_ns = exchange.pace.next_ns(exchange.in_flight)
            # This answer may allow a request before the time that `_keep_time` waits for, or end the load.
            timer.hurry(now_ns if next_ns is None else next_ns)
        elif exchange.is_done(now_ns):
            open_conversations.end_one()
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
