"""Settings that were made while the broker runs and have no effect, or not yet: said once of each.

Rules of this file: what is said of a property stands with the properties; here is only what was said already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from pipeline_broker.config.settings import warning_of, warning_of_change
from pipeline_broker.config.topic_settings import TOPIC_ACTED_ON

__all__ = ["SettingsWarnings"]

logger = logging.getLogger(__name__)

TOLD_MAX = 1_000
"""Lines that are remembered: a client may invent names, and is told of no more of them."""


class SettingsWarnings:
    """See the rules of the file."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, names: Iterable[str]) -> None:
        """Of properties of the broker."""
        lines = {name: warning_of_change(name) for name in names}
        self._tell({name: line for name, line in lines.items() if line is not None})

    def tell_of_topic(self, names: Iterable[str]) -> None:
        self._tell({name: warning_of(f"the topic setting {name}") for name in names if name not in TOPIC_ACTED_ON})

    def _tell(self, lines: Mapping[str, str]) -> None:
        for line in lines.values():
            if line not in self._told and len(self._told) < TOLD_MAX:
                self._told.add(line)
                logger.warning(line)
