"""A wall clock that stands still while it is set back."""

from __future__ import annotations

import attrs

__all__ = ["LatestTime"]


@attrs.define
class LatestTime:
    """The latest wall-clock time that a coordinator has received, in milliseconds.

    A call records a time and returns the latest one.
    """

    now_ms: int = 0

    def __call__(self, now_ms: int) -> int:
        self.now_ms = max(self.now_ms, now_ms)
        return self.now_ms
