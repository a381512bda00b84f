"""Awaiting the broker's thread from asyncio or Trio."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import trio

from pipeline_broker.embedded.errors import EmbeddedBrokerError

__all__ = ["await_future", "in_thread", "running_loop"]

__tracebackhide__ = True  # pytest shows the caller's line instead of this module
Result = TypeVar("Result")


def running_loop() -> str | None:
    """Return "Trio" or "asyncio" if its event loop runs in this thread, else None. Does not import asyncio."""
    if trio.lowlevel.in_trio_run():
        return "Trio"
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return None
        return "asyncio"
    return None


async def await_future(future: Future[Result]) -> Result:
    """Await a future; cancelling the caller cancels the future.

    Raises:
        EmbeddedBrokerError: neither asyncio nor Trio runs in this thread.
    """
    if _loop_in_use() == "Trio":
        try:
            return await trio.to_thread.run_sync(future.result, abandon_on_cancel=True)
        finally:
            future.cancel()
    import asyncio  # noqa: PLC0415 - already imported if asyncio runs

    return await asyncio.wrap_future(future)


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run a short blocking function in a thread. The wait cannot be cancelled under Trio.

    Raises:
        EmbeddedBrokerError: neither asyncio nor Trio runs in this thread.
    """
    if _loop_in_use() == "Trio":
        return await trio.to_thread.run_sync(work)
    import asyncio  # noqa: PLC0415 - see above

    return await asyncio.to_thread(work)


def _loop_in_use() -> str:
    name = running_loop()
    if name is None:
        raise EmbeddedBrokerError("the broker can be awaited only in asyncio and Trio; use `with` elsewhere")
    return name
