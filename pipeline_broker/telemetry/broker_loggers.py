"""The loggers whose levels a client may see and change while the broker runs, as Kafka's BROKER_LOGGER resource.

Rules of this file: a level is one of Kafka's six names and lasts until the broker ends; it is never written down. The
logger `kafka.request.logger` is the switch of the request log: DEBUG and TRACE log every request, the others none (INFO
would log those of deprecated versions, of which Kafka 4.3.1 has none). The others are loggers of Python, of the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

__all__ = ["LEVELS", "REQUEST_LOGGER", "ROOT", "BrokerLoggers", "logs_requests"]

REQUEST_LOGGER = "kafka.request.logger"
ROOT = "root"
OF_PYTHON = (ROOT, "pipeline_broker", "pipeline_broker.authorizer", "stages")
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's levels, with Python's numbers."""
DEFAULT_LEVEL = "WARN"


def logs_requests(level: str) -> bool:
    """Whether a level of `kafka.request.logger` logs requests."""
    return level in {"TRACE", "DEBUG"}


def _name_of(number: int) -> str:
    """The highest of Kafka's levels that is not above one of Python's."""
    at_most = [name for name, own in LEVELS.items() if own <= number]
    return at_most[-1] if at_most else next(iter(LEVELS))


class BrokerLoggers:
    """All of them.

    Args:
        names: the loggers of Python that are shown.
    """

    def __init__(self, names: Iterable[str] = OF_PYTHON) -> None:
        self._loggers = {name: logging.getLogger(None if name == ROOT else name) for name in names}
        self._at_start = {name: one.level for name, one in self._loggers.items()}
        self._request_level = self._request_level_at_start = DEFAULT_LEVEL
        self._request_level_changed: Callable[[str], None] = lambda _: None

    def start_request_log(self, level: str, changed: Callable[[str], None]) -> None:
        """The level that the broker is started with, and who follows it from now on."""
        self._request_level_at_start = level
        self._request_level_changed = changed
        self.set_level(REQUEST_LOGGER, level)

    def __contains__(self, name: str) -> bool:
        return name == REQUEST_LOGGER or name in self._loggers

    def levels(self) -> dict[str, str]:
        """The level of each, by name."""
        levels = {name: _name_of(one.getEffectiveLevel()) for name, one in self._loggers.items()}
        levels[REQUEST_LOGGER] = self._request_level
        return dict(sorted(levels.items()))

    def set_level(self, name: str, level: str) -> None:
        """Log at this level from now on."""
        if name == REQUEST_LOGGER:
            self._request_level = level
            self._request_level_changed(level)
        else:
            self._loggers[name].setLevel(LEVELS[level])

    def reset_level(self, name: str) -> None:
        """Log as at the start of the broker."""
        if name == REQUEST_LOGGER:
            self.set_level(name, self._request_level_at_start)
        else:
            self._loggers[name].setLevel(self._at_start[name])
