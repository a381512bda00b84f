"""A warning that says how often something has happened, and is not said again for a while.

Rules of this file: pure, times are passed in.
"""

from __future__ import annotations

import logging

__all__ = ["CountedWarning"]

LOG_SECONDS = 60.0
"""How often one is said at most."""


class CountedWarning:
    """See the rules of the file.

    Args:
        logger: takes it.
        text: with a `%d` for how often.
    """

    def __init__(self, logger: logging.Logger, text: str) -> None:
        self._logger, self._text = logger, text
        self._said_at, self._unsaid = float("-inf"), 0

    def add(self, count: int, now: float) -> None:
        """It has happened so often again; what is not said now is said with a later call."""
        self._unsaid += count
        if self._unsaid and now - self._said_at >= LOG_SECONDS:
            self._logger.warning(self._text, self._unsaid)
            self._said_at, self._unsaid = now, 0
