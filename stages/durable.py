"""Commits that belong to no request, for tasks that wait for them.

Rules of this file: one function, on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import trio

from stages.committer import Submission

__all__ = ["wait_durable"]


class Submits(Protocol):
    """What is asked of a `stages.socket_server.SocketServer`."""

    def submit(self, submission: Submission) -> None:
        """Commit entries that belong to no request."""


async def wait_durable(
    server: Submits, entries: Sequence[Any], on_durable: Callable[[], None] | None = None
) -> BaseException | None:
    """Submit entries and wait for their commit.

    Args:
        server: commits them.
        entries: as its storage knows them; there may be none.
        on_durable: called when they are durable, before this returns.

    Returns:
        why they are not durable; None: they are.
    """
    ended = trio.Event()
    errors: list[BaseException | None] = []

    def end(_: Submission, error: BaseException | None) -> None:
        errors.append(error)
        ended.set()

    server.submit(Submission(entries, on_durable=on_durable, on_ended=end))
    await ended.wait()
    return errors[0]
