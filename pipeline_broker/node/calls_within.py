"""Requests from within the process, of an embedding program or of the dashboard, handled like a client's.

Rules of this file: on the event loop. A call passes no connection, no queue and no observer, and is refused for what
Kafka refuses; what must be durable first is durable when it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call, Session
from pipeline_broker.apis.dispatch import refusal_by_api
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.apis.steps import Stepwise
from stages.durable import wait_durable
from stages.request import Close, NoOp, Parked, Pending, Request, Result, Send, Unfinished, Waiting, go_on

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.security.acl import AclOperation
    from stages.socket_server import SocketServer

__all__ = ["CallFailedError", "Caller"]

ROOM_BYTES = 1 << 30
NO_FRAME = memoryview(b"")
"""In place of the bytes of a request: there are none, and no later request is compared with them."""


class _NobodyWaits:
    """A `stages.request.Deferral`: there is no connection whose client could be slow."""

    must_wait = False
    size_bytes = 0

    def defer(self, request: Request) -> None:
        raise AssertionError(f"{request!r} is never deferred")


class CallFailedError(ConnectionError):
    """A connection would have been closed: the text is one line that says why."""


class _Slot:
    """A `stages.request.ConnectionHandle` for one call."""

    index = -1
    closed = False
    response_room_bytes = ROOM_BYTES
    unsent = _NobodyWaits()

    def __init__(self, session: Session) -> None:
        self.session = session
        self.id = self.listener = session.listener
        self.peer = session.host
        self._results, self._next = trio.open_memory_channel[Result](1)

    def complete(self, request: Request, result: Result) -> None:  # noqa: ARG002 - there is one only
        self._results.send_nowait(result)

    def call_back(self, request: Request, callback: Callable[[], Result]) -> None:
        self.complete(request, callback())

    def begin_work(self, abandon: Callable[[], None]) -> None:
        """There is no later request."""

    def end_work(self, abandon: Callable[[], None]) -> None:
        """There is none."""

    def throttle(self, seconds: float) -> None:
        """Calls from within are not throttled."""

    def take_deferred(self) -> Request | None:
        return None

    async def next_result(self) -> Result:
        return await self._next.receive()


class Caller:
    """Asks a broker as somebody.

    Args:
        server: commits what is asked for.
        broker: answers.
        session: who asks; its listener is a name of none that there is, and the client id.
    """

    def __init__(self, server: SocketServer, broker: Broker, session: Session) -> None:
        self._server, self._broker, self._session = server, broker, session

    async def ask(self, message: Any, now_ms: int) -> Any:
        """Handle a request and wait for its response.

        Args:
            message: the request, in the newest version that is served.
            now_ms: wall clock.

        Returns:
            the response message; None where there is none.

        Raises:
            CallFailedError: a connection would have been closed.
        """
        served = SERVED[message.SCHEMA.key]
        call, slot = self._call(int(served.key), served.versions[-1], now_ms)
        if served.writes and not self._broker.can_write:
            return refusal_by_api(served.refused_with, call, message)
        handle = import_module(f"pipeline_broker.apis.{served.module}").handle
        result = _begun(handle(call, message))
        while not isinstance(result, Send | NoOp | Close):
            result = await self._next(slot, result)
        if isinstance(result, Close):
            raise CallFailedError(f"{served.name} was not answered: {result.reason}")
        return call.request.answer if isinstance(result, Send) else None

    def may_of_cluster(self, operation: AclOperation) -> bool:
        """Whether who asks may do something to the cluster that no request of Kafka's asks for."""
        return authorize_cluster(self._call(0, 0, 0)[0], operation)

    def _call(self, key: int, version: int, now_ms: int) -> tuple[Call, _Slot]:
        slot = _Slot(self._session)
        request = Request(slot, 0, NO_FRAME, 0)
        request.api, request.version = key, version
        return Call(self._broker, request, slot.session, key, version, 0, slot.listener, now_ms), slot

    async def _next(self, slot: _Slot, result: Pending | Parked | Unfinished) -> Result:
        if isinstance(result, Unfinished):
            return await self._next_step(result)
        if isinstance(result, Pending):
            await self._commit(result)
            return result.result
        if result.work is None:
            return await slot.next_result()
        found = await trio.to_thread.run_sync(result.work)
        answer: Result = found if result.then is None else result.then(found)
        return answer

    async def _next_step(self, unfinished: Unfinished) -> Result:
        """Wait for what the steps yielded, then run the next one; they are closed where that is cancelled."""
        steps, first = unfinished.steps, unfinished.first
        value, problem = None, None
        try:
            if isinstance(first, Pending):
                await self._commit(first)
            elif isinstance(first, Waiting):
                is_over = trio.Event()
                first.when_over(is_over.set)
                await is_over.wait()
            elif first is not None and first.work is not None:
                try:
                    value = await trio.to_thread.run_sync(first.work)
                except Exception as error:  # noqa: BLE001 - the steps know what it means
                    problem = error
            await trio.lowlevel.checkpoint()
        except BaseException:
            steps.close()
            raise
        return go_on(steps, value, problem)

    async def _commit(self, pending: Pending) -> None:
        """Return when the entries are durable."""
        error = await wait_durable(self._server, pending.entries, pending.on_durable)
        if error is not None:
            raise CallFailedError(f"the broker failed: {error}")


def _begun(result: Result | Stepwise[Result]) -> Result:
    return go_on(result) if isinstance(result, Generator) else result
