"""A wakeup of a Trio task from any thread."""

from __future__ import annotations

import trio

__all__ = ["ThreadWakeup"]


class ThreadWakeup:
    """A callback for any thread that wakes a waiting task, or else makes its next wait return at once.

    Calls before `begin` are ignored.
    """

    def __init__(self) -> None:
        self._called = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None

    def __call__(self) -> None:
        if self._token is not None:
            # The only call of Trio that other threads may make. Calls before the task wakes are merged into one.
            self._token.run_sync_soon(self._set)

    def _set(self) -> None:
        self._called.set()

    def begin(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def end(self) -> None:
        self._token = None

    async def wait(self) -> None:
        await self._called.wait()
        self._called = trio.Event()
