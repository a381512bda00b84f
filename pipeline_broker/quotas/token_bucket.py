"""Changes of metadata that a client may still ask for: Kafka's token bucket (KIP-599).

Rules of this file: sans-IO, time passed in, in milliseconds of a clock that does not run backwards. A bucket begins
full, holds as much as all windows allow, and may be overdrawn by one request; the debt is paid off at the limit's rate.
"""

from __future__ import annotations

from pipeline_broker.quotas.rate import Windows

__all__ = ["TokenBucket"]


class TokenBucket:
    """The tokens of one client."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # None: full, whatever the limit
        self._updated_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        """How many are left; fewer than none is a debt."""
        full = limit * self._windows.all_ms / 1000
        if self._tokens is None:
            self._tokens = full
        else:
            self._tokens = min(full, self._tokens + limit * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        """Take tokens, also more than there are."""
        self._tokens = self.tokens(limit, now_ms) - count

    def throttle_time_ms(self, limit: float, now_ms: int) -> int:
        """How long until the debt is paid; 0 without one."""
        tokens = self.tokens(limit, now_ms)
        return int(-tokens / limit * 1000 + 0.5) if tokens < 0 else 0

    def is_full(self, limit: float, now_ms: int) -> bool:
        """Whether a new one would be the same."""
        return self.tokens(limit, now_ms) >= limit * self._windows.all_ms / 1000
