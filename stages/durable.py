"""Commits of tasks rather than of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import trio

from stages.committer import Submission

__all__ = ["wait_durable"]


class Submits(Protocol):
    def submit(self, submission: Submission) -> None: ...


async def wait_durable(
    server: Submits, entries: Sequence[Any], on_durable: Callable[[], None] | None = None
) -> BaseException | None:
    """Submit entries and wait for their commit.

    Args:
        server: a `SocketServer`.
        entries: entries in the form of the server's storage; may be empty.
        on_durable: called once the entries are durable, before this function returns.

    Returns:
        None, or the error of the failed commit.
    """
    ended = trio.Event()
    errors: list[BaseException | None] = []

    def end(_: Submission, error: BaseException | None) -> None:
        errors.append(error)
        ended.set()

    server.submit(Submission(entries, on_durable=on_durable, on_ended=end))
    await ended.wait()
    return errors[0]
