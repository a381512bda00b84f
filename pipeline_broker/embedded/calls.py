"""Requests of the embedding program, handled like a client's.

Rules of this file: on the event loop. A call passes no connection, no queue and no observer, may do everything, and is
refused for what Kafka refuses; what must be durable first is durable when it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any

import trio

from pipeline_broker.apis.call import Call, Session
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.apis.steps import Stepwise
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.life import Running
from stages.committer import Submission
from stages.request import Close, NoOp, Parked, Pending, Request, Result, Send, Unfinished, Waiting, go_on

__all__ = ["ask"]

CLIENT_ID = "embedded-broker"
LISTENER = "EMBEDDED"
HOST = "127.0.0.1"
ROOM_BYTES = 1 << 30
NO_FRAME = memoryview(b"")
"""In place of the bytes of a request: there are none, and no later request is compared with them."""


class _NobodyWaits:
    """A `stages.request.Deferral`: there is no connection whose client could be slow."""

    must_wait = False
    size_bytes = 0

    def defer(self, request: Request) -> None:
        raise AssertionError(f"{request!r} is never deferred")


class _Caller:
    """A `stages.request.ConnectionHandle` for one call."""

    id = LISTENER
    index = -1
    peer = HOST
    listener = LISTENER
    closed = False
    response_room_bytes = ROOM_BYTES
    unsent = _NobodyWaits()

    def __init__(self) -> None:
        self.session = Session(host=HOST, listener=LISTENER, is_privileged=True, is_trusted=True)
        self.results: list[Result] = []
        self._completed = trio.Event()

    def complete(self, request: Request, result: Result) -> None:  # noqa: ARG002 - there is one only
        self.results.append(result)
        self._completed.set()

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
        await self._completed.wait()
        self._completed = trio.Event()
        return self.results.pop()


async def ask(running: Running, message: Any, now_ms: int) -> Any:
    """Handle a request and wait for its response.

    Args:
        running: the broker, and the server that commits for it.
        message: the request, in the newest version that is served.
        now_ms: wall clock.

    Returns:
        the response message; None where there is none.

    Raises:
        EmbeddedBrokerError: a connection would have been closed.
    """
    served = SERVED[message.SCHEMA.key]
    caller = _Caller()
    request = Request(caller, 0, NO_FRAME, 0)
    key, version = int(served.key), served.versions[-1]
    call = Call(running.broker, request, caller.session, key, version, 0, CLIENT_ID, now_ms)
    handle = import_module(f"pipeline_broker.apis.{served.module}").handle
    result = _begun(handle(call, message))
    while not isinstance(result, Send | NoOp | Close):
        result = await _next(running, caller, result)
    if isinstance(result, Close):
        raise EmbeddedBrokerError(f"{served.name} was not answered: {result.reason}")
    return request.answer if isinstance(result, Send) else None


def _begun(result: Result | Stepwise[Result]) -> Result:
    return go_on(result) if isinstance(result, Generator) else result


async def _next_step(running: Running, unfinished: Unfinished) -> Result:
    """Wait for what the steps yielded, then run the next one; they are closed where that is cancelled."""
    steps, first = unfinished.steps, unfinished.first
    value, problem = None, None
    try:
        if isinstance(first, Pending):
            await _commit(running, first)
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


async def _next(running: Running, caller: _Caller, result: Pending | Parked | Unfinished) -> Result:
    if isinstance(result, Unfinished):
        return await _next_step(running, result)
    if isinstance(result, Pending):
        await _commit(running, result)
        return result.result
    if result.work is None:
        return await caller.next_result()
    found = await trio.to_thread.run_sync(result.work)
    answer: Result = found if result.then is None else result.then(found)
    return answer


async def _commit(running: Running, pending: Pending) -> None:
    """Return when the entries are durable."""
    ended = trio.Event()
    errors: list[BaseException | None] = []

    def end(_: Submission, error: BaseException | None) -> None:
        errors.append(error)
        ended.set()

    running.server.submit(Submission(pending.entries, on_durable=pending.on_durable, on_ended=end))
    await ended.wait()
    if errors[0] is not None:
        raise EmbeddedBrokerError(f"the broker failed: {errors[0]}")
