"""Kafka's sampled rate: events per second over a window, and the throttle time that reduces it to a limit."""

from __future__ import annotations

from collections import deque

import attrs

__all__ = ["Rate", "Windows", "throttle_time_ms"]


@attrs.frozen
class Windows:
    """The windows over which a rate is measured.

    Attributes:
        count: `quota.window.num`.
        size_ms: `quota.window.size.seconds`, in milliseconds.
    """

    count: int = 11
    size_ms: int = 1000

    @property
    def all_ms(self) -> int:
        """The length of all windows; after this time without events a rate equals a new one."""
        return self.count * self.size_ms


@attrs.define
class _Window:
    began_ms: int
    last_event_ms: int
    value: float = 0.0
    events: int = 0


class Rate:
    """The rate of recorded values.

    Values are summed in windows. The rate is the sum of all current windows divided by the time since the oldest one
    began. This time counts as at least all windows but one: otherwise the first burst of a client after a pause would
    exceed its limit.
    """

    __slots__ = ("_recorded", "_total", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._recorded: deque[_Window] = deque()
        self._total = 0.0  # the sum of all windows; exact for bytes, because these are whole numbers

    def record(self, value: float, now_ms: int) -> None:
        recorded = self._recorded
        if not recorded or now_ms - recorded[-1].began_ms >= self._windows.size_ms:
            recorded.append(_Window(now_ms, now_ms))
            if len(recorded) > self._windows.count + 1:  # one more, because the oldest may be in the span partly
                self._total -= recorded.popleft().value
        window = recorded[-1]
        self._total += value
        window.value += value
        window.events += 1
        window.last_event_ms = now_ms

    def span_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is measured, in milliseconds; at least 1."""
        self._forget(now_ms)
        elapsed_ms = now_ms - self._recorded[0].began_ms if self._recorded else 0
        missing = self._windows.count - 1 - elapsed_ms // self._windows.size_ms
        return max(elapsed_ms + max(missing, 0) * self._windows.size_ms, 1)

    def per_second(self, now_ms: int) -> float:
        span_ms = self.span_ms(now_ms)
        return self.total(now_ms) * 1000 / span_ms

    def total(self, now_ms: int) -> float:
        self._forget(now_ms)
        return self._total

    def average(self, now_ms: int) -> float:
        total = self.total(now_ms)
        events = sum(window.events for window in self._recorded)
        return total / events if events else 0.0

    def is_idle(self, now_ms: int) -> bool:
        self._forget(now_ms)
        return not self._recorded

    def _forget(self, now_ms: int) -> None:
        recorded, all_ms = self._recorded, self._windows.all_ms
        while recorded and now_ms - recorded[0].last_event_ms >= all_ms:
            self._total -= recorded.popleft().value
        # Removes the rounding errors of values that are not whole numbers.
        if not recorded:
            self._total = 0.0


def throttle_time_ms(rate: Rate, limit: float, now_ms: int) -> int:
    """Return the milliseconds without events until the rate falls to the limit, by Kafka's formula.

    Returns 0 if the rate is not above the limit.

    Args:
        limit: maximum per second, greater than 0.
    """
    span_ms = rate.span_ms(now_ms)
    observed = rate.total(now_ms) * 1000 / span_ms
    if observed <= limit:
        return 0
    return int((observed - limit) / limit * span_ms + 0.5)
