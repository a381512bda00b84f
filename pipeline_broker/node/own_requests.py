"""Requests of a broker to itself, handled like those of clients, one after the other."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from stages.socket_server import SocketServer

__all__ = ["OwnRequests"]

logger = logging.getLogger(__name__)

WAITING_MAX = 1_000
"""Requests that wait; a broker that asks for more gets no response."""


class OwnRequests:
    """A queue of requests. They wait until `run` is called."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, Callable[[Any], None]]] = deque()
        self._is_wanted = trio.lowlevel.ParkingLot()

    def ask(self, request: Any, response_type: type[Any], done: Callable[[Any], None]) -> None:
        del response_type
        if len(self._waiting) >= WAITING_MAX:
            done(None)
            return
        self._waiting.append((request, done))
        self._is_wanted.unpark_all()

    async def run(
        self, server: SocketServer, broker: Broker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        task_status.started()
        while True:
            while self._waiting:
                request, done = self._waiting.popleft()
                done(await self._response(server, broker, request))
            await self._is_wanted.park()

    @staticmethod
    async def _response(server: SocketServer, broker: Broker, request: Any) -> Any:
        from pipeline_broker.apis.call import Session  # noqa: PLC0415 - few brokers ask themselves
        from pipeline_broker.node.calls_within import Caller  # noqa: PLC0415 - as above

        caller = Caller(server, broker, Session(host="", listener="", is_trusted=True))
        try:
            return await caller.ask(request, broker.ports.clock_ms())
        except Exception:  # the broker continues, as after a failed request of a client
            logger.exception("a request of the broker to itself failed")
            return None
