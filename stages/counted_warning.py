"""A rate-limited log warning with a count."""

from __future__ import annotations

import logging

__all__ = ["CountedWarning"]

LOG_SECONDS = 60.0
"""Minimum time between two warnings."""


class CountedWarning:
    """A warning with the number of events since the last one, logged at most once in LOG_SECONDS.

    Args:
        logger: receives the warning.
        text: message with a `%d` for the number of events.
    """

    def __init__(self, logger: logging.Logger, text: str) -> None:
        self._logger, self._text = logger, text
        self._logged_at, self._unlogged = float("-inf"), 0

    def add(self, count: int, now: float) -> None:
        """Count `count` events at time `now` (seconds), and log them now or with a later call."""
        self._unlogged += count
        if self._unlogged and now - self._logged_at >= LOG_SECONDS:
            self._logger.warning(self._text, self._unlogged)
            self._logged_at, self._unlogged = now, 0
