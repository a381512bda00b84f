"""Log levels that clients can read and change on a running broker: Kafka's resource type BROKER_LOGGER.

A changed level is not stored. It lasts until the broker ends. `kafka.request.logger` switches the request log; the
other loggers are Python's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

__all__ = ["LEVELS", "REQUEST_LOGGER", "ROOT", "BrokerLoggers", "logs_requests"]

REQUEST_LOGGER = "kafka.request.logger"
ROOT = "root"
PYTHON_LOGGERS = (ROOT, "pipeline_broker", "pipeline_broker.audit", "pipeline_broker.authorizer", "stages")
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's level names and Python's numbers, ascending."""
DEFAULT_LEVEL = "WARN"


def logs_requests(level: str) -> bool:
    """Return whether a level of `kafka.request.logger` logs requests.

    INFO would log only requests of deprecated versions, of which Kafka 4.4 has none.
    """
    return level in {"TRACE", "DEBUG"}


def _name_of(number: int) -> str:
    """Return the highest of Kafka's levels that is not above a level of Python's; TRACE if all are above."""
    at_most = [name for name, least in LEVELS.items() if least <= number]
    return at_most[-1] if at_most else next(iter(LEVELS))


class BrokerLoggers:
    """The loggers of the broker and their levels, under Kafka's names.

    Args:
        names: the Python loggers that clients can see.
    """

    def __init__(self, names: Iterable[str] = PYTHON_LOGGERS) -> None:
        self._loggers = {name: logging.getLogger(None if name == ROOT else name) for name in names}
        self._at_start = {name: logger.level for name, logger in self._loggers.items()}
        self._request_level = self._request_level_at_start = DEFAULT_LEVEL
        self._request_level_changed: Callable[[str], None] = lambda _: None

    def start_request_log(self, level: str, changed: Callable[[str], None]) -> None:
        """Set the initial level of the request log, and call `changed` with this level and each later one."""
        self._request_level_at_start = level
        self._request_level_changed = changed
        self.set_level(REQUEST_LOGGER, level)

    def __contains__(self, name: str) -> bool:
        return name == REQUEST_LOGGER or name in self._loggers

    def levels(self) -> dict[str, str]:
        levels = {name: _name_of(logger.getEffectiveLevel()) for name, logger in self._loggers.items()}
        levels[REQUEST_LOGGER] = self._request_level
        return dict(sorted(levels.items()))

    def set_level(self, name: str, level: str) -> None:
        if name == REQUEST_LOGGER:
            self._request_level = level
            self._request_level_changed(level)
        else:
            self._loggers[name].setLevel(LEVELS[level])

    def reset_level(self, name: str) -> None:
        if name == REQUEST_LOGGER:
            self.set_level(name, self._request_level_at_start)
        else:
            self._loggers[name].setLevel(self._at_start[name])
