"""Waiting on the caller's event loop: asyncio or Trio.

Rules of this file: asyncio is not imported unless somebody runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import trio

from pipeline_broker.embedded.errors import EmbeddedBrokerError

__all__ = ["await_future", "in_thread", "running_loop"]

__tracebackhide__ = True  # see lifecycle.py
Result = TypeVar("Result")


def running_loop() -> str | None:
    """The name of the event loop that runs in this thread; None where none does."""
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
    """The result of a future; a cancelled caller cancels it."""
    if _loop_in_use() == "Trio":
        try:
            return await trio.to_thread.run_sync(future.result, abandon_on_cancel=True)
        finally:
            future.cancel()
    import asyncio  # noqa: PLC0415 - it runs, so it is loaded

    return await asyncio.wrap_future(future)


async def in_thread(work: Callable[[], Result]) -> Result:
    """Do work that takes milliseconds in a thread, to its end."""
    if _loop_in_use() == "Trio":
        return await trio.to_thread.run_sync(work)
    import asyncio  # noqa: PLC0415 - see above

    return await asyncio.to_thread(work)


def _loop_in_use() -> str:
    name = running_loop()
    if name is None:
        raise EmbeddedBrokerError("the broker is awaited from asyncio and from Trio only; elsewhere use `with`")
    return name
