"""The underlying exception of the exception groups that nurseries raise."""

from __future__ import annotations

__all__ = ["first_cause"]


def first_cause(error: BaseException) -> BaseException:
    """Return the first exception of nested groups; any other exception is returned as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
