"""What went wrong, under what nurseries wrapped around it.

Rules of this file: it knows nobody, so everybody may ask it.
"""

from __future__ import annotations

__all__ = ["first_cause"]


def first_cause(error: BaseException) -> BaseException:
    """The first error in a group of groups; an error that is no group stands for itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
