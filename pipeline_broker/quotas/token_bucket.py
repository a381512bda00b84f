"""Kafka's token bucket for metadata changes (KIP-599)."""

from __future__ import annotations

from pipeline_broker.quotas.rate import Windows

__all__ = ["TokenBucket"]


class TokenBucket:
    """The tokens of one client: the metadata changes that it may still request.

    A bucket begins full and holds the changes that the limit allows in all windows. One request may overdraw it. The
    debt is paid off at the rate of the limit.
    """

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # None: full, with any limit
        self._updated_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        full = limit * self._windows.all_ms / 1000
        if self._tokens is None:
            self._tokens = full
        else:
            self._tokens = min(full, self._tokens + limit * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        self._tokens = self.tokens(limit, now_ms) - count

    def throttle_time_ms(self, limit: float, now_ms: int) -> int:
        """Return the milliseconds until the debt is paid off; 0 without a debt."""
        tokens = self.tokens(limit, now_ms)
        return int(-tokens / limit * 1000 + 0.5) if tokens < 0 else 0

    def is_full(self, limit: float, now_ms: int) -> bool:
        return self.tokens(limit, now_ms) >= limit * self._windows.all_ms / 1000
