"""A Trio run for a command, which raises a single error instead of the exception groups of nurseries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from pipeline_broker.base.first_cause import first_cause
from pipeline_broker.client.errors import ClientError

__all__ = ["run_client"]

Result = TypeVar("Result")


def run_client(program: Callable[[], Awaitable[Result]]) -> Result:
    """Run an async function to completion, and return its result.

    From an exception group only the most important error is raised: an interrupt before a closed pipe before a
    ClientError.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
        BrokenPipeError: the reader of the output closed it.
        ClientError: the first one in the group.
    """
    try:
        return trio.run(program)
    except BaseExceptionGroup as group:
        for kind in (KeyboardInterrupt, BrokenPipeError, ClientError):
            found = group.subgroup(kind)
            if found is not None:
                raise first_cause(found) from None
        raise
