"""One run of a Trio program for a command.

Rules of this file: what nurseries wrap is unwrapped here, once: an interrupt is an interrupt, and the first thing that
a person must be told stands for the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from pipeline_broker.client.errors import ClientError
from pipeline_broker.first_cause import first_cause

__all__ = ["run_client"]

Result = TypeVar("Result")


def run_client(program: Callable[[], Awaitable[Result]]) -> Result:
    """What a program gives, run to its end.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
        BrokenPipeError: nobody reads what is written.
        ClientError: the first of them.
    """
    try:
        return trio.run(program)
    except BaseExceptionGroup as group:
        for kind in (KeyboardInterrupt, BrokenPipeError, ClientError):
            found = group.subgroup(kind)
            if found is not None:
                raise first_cause(found) from None
        raise
