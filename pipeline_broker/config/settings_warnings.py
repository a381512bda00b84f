"""Warnings about settings that were changed on a running broker and have no effect, each once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from pipeline_broker.config.settings import is_topic_setting_acted_on, warning_of, warning_of_change

__all__ = ["SettingsWarnings"]

logger = logging.getLogger(__name__)

# Clients can invent names without end, so both the log and this memory are bounded.
WARNINGS_MAX = 1_000


class SettingsWarnings:
    """Warnings about settings without effect, at most WARNINGS_MAX in the life of the broker."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def warn_about_properties(self, names: Iterable[str]) -> None:
        lines = {name: warning_of_change(name) for name in names}
        self._warn({name: line for name, line in lines.items() if line is not None})

    def warn_about_topic_settings(self, names: Iterable[str]) -> None:
        self._warn(
            {name: warning_of(f"the topic setting {name}") for name in names if not is_topic_setting_acted_on(name)}
        )

    def _warn(self, lines: Mapping[str, str]) -> None:
        for line in lines.values():
            if line not in self._logged and len(self._logged) < WARNINGS_MAX:
                self._logged.add(line)
                logger.warning(line)
