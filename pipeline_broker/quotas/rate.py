"""How fast something happens, and how long to wait until it is slow enough again: Kafka's sampled rate.

Rules of this file: sans-IO, time passed in, in milliseconds of a clock that does not run backwards. What is recorded
falls into windows; the rate is the sum of those that are not too old, over the time since the oldest of them began, but
never less than all windows but one: a client that comes back after a pause may not be stopped by its first burst.
"""

from __future__ import annotations

from collections import deque

import attrs

__all__ = ["Rate", "Windows", "throttle_time_ms"]


@attrs.frozen
class Windows:
    """Over how long a rate is taken.

    Attributes:
        count: `quota.window.num`.
        size_ms: `quota.window.size.seconds`.
    """

    count: int = 11
    size_ms: int = 1000

    @property
    def all_ms(self) -> int:
        """After so long without events a rate is as if new."""
        return self.count * self.size_ms


@attrs.define
class _Window:
    began_ms: int
    last_event_ms: int
    value: float = 0.0
    events: int = 0


class Rate:
    """Values over time."""

    __slots__ = ("_recorded", "_total", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._recorded: deque[_Window] = deque()
        self._total = 0.0  # of all that are recorded; bytes are whole numbers, so that it is exact

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back what was added before."""
        recorded = self._recorded
        if not recorded or now_ms - recorded[-1].began_ms >= self._windows.size_ms:
            recorded.append(_Window(now_ms, now_ms))
            if len(recorded) > self._windows.count + 1:  # one more than are counted: the oldest may still be partly in
                self._total -= recorded.popleft().value
        window = recorded[-1]
        self._total += value
        window.value += value
        window.events += 1
        window.last_event_ms = now_ms

    def span_ms(self, now_ms: int) -> int:
        """The time that the rate is taken over."""
        self._forget(now_ms)
        elapsed_ms = now_ms - self._recorded[0].began_ms if self._recorded else 0
        missing = self._windows.count - 1 - elapsed_ms // self._windows.size_ms
        return max(elapsed_ms + max(missing, 0) * self._windows.size_ms, 1)

    def per_second(self, now_ms: int) -> float:
        span_ms = self.span_ms(now_ms)
        return self.total(now_ms) * 1000 / span_ms

    def total(self, now_ms: int) -> float:
        """The sum of what was recorded."""
        self._forget(now_ms)
        return self._total

    def average(self, now_ms: int) -> float:
        """The mean of what was recorded, 0 for nothing."""
        total = self.total(now_ms)
        events = sum(window.events for window in self._recorded)
        return total / events if events else 0.0

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing that counts is left: a new one would say the same."""
        self._forget(now_ms)
        return not self._recorded

    def _forget(self, now_ms: int) -> None:
        recorded, all_ms = self._recorded, self._windows.all_ms
        while recorded and now_ms - recorded[0].last_event_ms >= all_ms:
            self._total -= recorded.popleft().value
        if not recorded:
            self._total = 0.0


def throttle_time_ms(rate: Rate, limit: float, now_ms: int) -> int:
    """How long nothing may be recorded until the rate is the limit; 0 when it keeps to it: Kafka's formula."""
    span_ms = rate.span_ms(now_ms)
    observed = rate.total(now_ms) * 1000 / span_ms
    if observed <= limit:
        return 0
    return int((observed - limit) / limit * span_ms + 0.5)
