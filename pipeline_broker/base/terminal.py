"""The terminal that a process was started from, whose end sends SIGHUP like an operator does."""

from __future__ import annotations

import os

__all__ = ["Terminal"]

STDIN = 0


class Terminal:
    def __init__(self) -> None:
        self._existed = os.isatty(STDIN)

    @property
    def is_closed(self) -> bool:
        return self._existed and not os.isatty(STDIN)
