"""Calls for the worker process, and the exceptions in which they can end.

A call is a module-level function with picklable arguments. It must be pure: its result depends only on the arguments,
and it has no other effect.
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
"""Limit of a pickled call, which may contain the largest record batch that a topic accepts."""
OUTCOME_BYTES_MAX = 8 << 20
"""Result of a worker process."""


class Work(NamedTuple):
    """A call. Equal calls have equal results, so callers may cache them."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __call__(self) -> Any:
        return self.function(*self.arguments)


class Refusal(Exception):
    """Base class of exceptions that are answers. The worker process passes them to the caller unchanged."""


class TookTooLongError(Exception):
    pass


class WorkFailedError(Exception):
    """The call raised an exception other than a Refusal, exceeded a limit of size, or ended its process."""


class BusyError(Exception):
    pass
