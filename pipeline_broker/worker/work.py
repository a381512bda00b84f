"""Work for the worker process, and the ways in which it ends.

A stranger's schema can keep a library in C busy for minutes and make it take gigabytes, and nothing in this process
could stop it. So such work is a function of a module with arguments that can be pickled, and the worker process calls
it (`child`). The arguments decide everything: work has no other input, and no effect but its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "OUTCOME_BYTES_MAX",
    "WORK_BYTES_MAX",
    "BusyError",
    "Refusal",
    "TookTooLongError",
    "Work",
    "WorkFailedError",
]

WORK_BYTES_MAX = 24 << 20
"""Pickled work, such as a record batch of the largest size that a topic takes."""
OUTCOME_BYTES_MAX = 8 << 20
"""A pickled result."""


class Work(NamedTuple):
    """A call. Equal work has equal results, so a caller may remember them."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __call__(self) -> Any:
        """Do the work here."""
        return self.function(*self.arguments)


class Refusal(Exception):
    """The base of exceptions that are answers: they pass from the worker process to the caller as they are."""


class TookTooLongError(Exception):
    """The work was ended after its time."""


class WorkFailedError(Exception):
    """The work raised an exception that is not a Refusal, took too much memory, or ended its process."""


class BusyError(Exception):
    """Too much work waits already."""
