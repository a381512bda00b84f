"""Requests from within the process, by an embedding program or the dashboard, handled like those of clients."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.apis.authorization import authorize
from pipeline_broker.apis.call import Call, Session
from pipeline_broker.apis.dispatch import refusal_by_api
from pipeline_broker.apis.loading import handler_module
from pipeline_broker.apis.registry import SERVED, Place
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.security.acl import CLUSTER_NAME, ResourceType
from stages.durable import wait_durable
from stages.request import Close, NoOp, Parked, Pending, Request, Result, Send, Unfinished, Waiting, go_on

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.security.acl import AclOperation
    from stages.socket_server import SocketServer

__all__ = ["CallFailedError", "Caller"]

RESPONSE_BYTES_MAX = 1 << 30
# In place of the frame of a request, which a call does not have.
NO_FRAME = memoryview(b"")


class _NeverDeferred:
    """A `stages.request.Deferral` for a call, which cannot be slow to read its responses."""

    must_wait = False
    size_bytes = 0

    def defer(self, request: Request) -> None:
        raise AssertionError(f"{request!r} is never deferred")


class CallFailedError(ConnectionError):
    """A client's connection would have been closed. The text is one line with the reason."""


class _Slot:
    index = -1
    closed = sends_ranges = False
    response_room_bytes = RESPONSE_BYTES_MAX
    unsent = _NeverDeferred()

    def __init__(self, session: Session) -> None:
        self.session = session
        self.id = self.listener = session.listener
        self.peer = session.host
        self._results, self._next = trio.open_memory_channel[Result](1)

    def complete(self, request: Request, result: Result) -> None:  # noqa: ARG002 - a slot has one request
        self._results.send_nowait(result)

    def call_back(self, request: Request, callback: Callable[[], Result]) -> None:
        self.complete(request, callback())

    def begin_work(self, abandon: Callable[[], None]) -> None: ...

    def end_work(self, abandon: Callable[[], None]) -> None: ...

    def throttle(self, seconds: float) -> None: ...  # quotas are for clients

    def take_deferred(self) -> Request | None:
        return None

    async def next_result(self) -> Result:
        return await self._next.receive()


class Caller:
    """A sender of requests to a broker, as one principal.

    A call has no connection, no queue, no observer and no quota. It is refused for the same reasons as a client's
    request.

    Args:
        server: commits the entries of requests.
        session: principal and host of the caller. The name of its listener, which does not exist, is the client id.
    """

    def __init__(self, server: SocketServer, broker: Broker, session: Session) -> None:
        self._server, self._broker, self._session = server, broker, session

    async def ask(self, message: Any, now_ms: int) -> Any:
        """Handle a request, and return its response message, or None if it has none.

        All changes are durable when this returns.

        Args:
            message: request, in the newest version that is served.
            now_ms: wall clock.

        Raises:
            CallFailedError: a client's connection would have been closed.
        """
        served = SERVED[message.SCHEMA.key]
        call, slot = self._call(int(served.key), served.versions[-1], now_ms)
        # As the dispatcher does for clients.
        if served.writes and not self._broker.can_write:
            return refusal_by_api(served.refused_with, call, message)
        result = _begun(handler_module(served).handle(call, message))
        while not isinstance(result, Send | NoOp | Close):
            result = await self._next(slot, result)
        if isinstance(result, Close):
            raise CallFailedError(f"{served.name} failed without a response: {result.reason}")
        cluster = self._broker.ports.cluster
        # As the dispatcher does for clients: the other brokers of the cluster have applied a change that is answered.
        if served.place is Place.CONTROLLER and cluster is not None and self._broker.controller is None:
            applied = trio.Event()
            cluster.when_applied(applied.set)
            await applied.wait()
        return call.request.answer if isinstance(result, Send) else None

    def may(
        self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME, *, is_logged: bool = True
    ) -> bool:
        """Return whether the caller is authorized for an operation that no Kafka request performs."""
        return authorize(self._call(0, 0, 0)[0], operation, resource_type, name, is_logged=is_logged)

    @property
    def name(self) -> str:
        return "" if self._session.is_trusted else str(self._session.principal)

    @property
    def rights(self) -> Hashable:
        """The principal and host that rules can distinguish. Callers with equal rights see the same."""
        session = self._session
        return None if session.is_trusted or self._broker.authorizer is None else (session.principal, session.host)

    @property
    def missing(self) -> str:
        """The first right that the caller lacked, as a sentence; empty before the first denial."""
        if self._session.denied is None:
            return ""
        operation, resource_type, name = self._session.denied
        kind = resource_type.name.lower().replace("_", " ")
        resource = "the cluster" if resource_type == ResourceType.CLUSTER else f"the {kind} {name}"
        return f"{self._session.principal} needs {operation.name.title().replace('_', '')} on {resource}"

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
        # The work of a parked request blocks.
        found = await trio.to_thread.run_sync(result.work)
        answer: Result = found if result.then is None else result.then(found)
        return answer

    async def _next_step(self, unfinished: Unfinished) -> Result:
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
                except Exception as error:  # noqa: BLE001 - passed to the steps
                    problem = error
            await trio.lowlevel.checkpoint()
        except BaseException:
            steps.close()  # cancelled: the steps release their resources
            raise
        return go_on(steps, value, problem)

    async def _commit(self, pending: Pending) -> None:
        error = await wait_durable(self._server, pending.entries, pending.on_durable)
        if error is not None:
            raise CallFailedError(f"the broker failed: {error}")


def _begun(result: Result | Stepwise[Result]) -> Result:
    return go_on(result) if isinstance(result, Generator) else result
