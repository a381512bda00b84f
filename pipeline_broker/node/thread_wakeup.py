"""A task that waits for calls from any thread."""

from __future__ import annotations

import trio

__all__ = ["ThreadWakeup"]


class ThreadWakeup:
    """Call it in any thread; what is called after `begin` wakes the task that waits, or the next time it waits."""

    def __init__(self) -> None:
        self._called = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None

    def __call__(self) -> None:
        if self._token is not None:
            self._token.run_sync_soon(self._set)

    def _set(self) -> None:
        self._called.set()

    def begin(self) -> None:
        """Take note of calls from now on."""
        self._token = trio.lowlevel.current_trio_token()

    def end(self) -> None:
        """Take note of no more calls."""
        self._token = None

    async def wait(self) -> None:
        """Wait until it was called after `begin` or after the last time."""
        await self._called.wait()
        self._called = trio.Event()
