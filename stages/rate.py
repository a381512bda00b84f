"""Rates of events over the last few windows, measured like every quota of Apache Kafka."""

from __future__ import annotations

import attrs

__all__ = ["Rate", "Windows"]


@attrs.frozen
class Windows:
    """The windows over which rates are measured.

    Attributes:
        count: number of remembered windows, including the current one (`quota.window.num`).
        seconds: length of each window (`quota.window.size.seconds`).
    """

    count: int = attrs.field(default=11, validator=attrs.validators.ge(1))
    seconds: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))


class Rate:
    """Events per second; sans-IO.

    A window starts with an event. The rate is the sum over the remembered windows, divided by the time since the oldest
    one started. This time counts as at least all windows but one. So a client that was idle may spend its allowance of
    that time at once.

    Times are seconds of a clock that never runs backwards.
    """

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: list[list[float]] = []  # start and events of each; lists, because they are few and small

    def record(self, now: float, windows: Windows) -> None:
        own = self._windows
        if own and now - own[-1][0] < windows.seconds:
            own[-1][1] += 1
        else:
            self._forget(now, windows)
            own.append([now, 1])

    def take_back(self, recorded: float) -> None:
        """Uncount an event recorded at `recorded`, unless its window is forgotten."""
        for window in reversed(self._windows):
            if window[0] <= recorded:
                window[1] -= window[1] > 0
                return

    def _forget(self, now: float, windows: Windows) -> None:
        own, remembered_seconds = self._windows, windows.count * windows.seconds
        while own and now - own[0][0] >= remembered_seconds:
            del own[0]

    def is_over(self, now: float, windows: Windows) -> bool:
        """Return whether no event is remembered, so that the rate can be dropped."""
        self._forget(now, windows)
        return not any(count for _, count in self._windows)

    def _measure(self, now: float, windows: Windows) -> tuple[float, float]:
        self._forget(now, windows)
        own = self._windows
        elapsed = now - own[0][0] if own else 0.0
        # Kafka's `Rate`: at least all windows but one count as elapsed, so a first burst is not overestimated.
        missing = windows.count - 1 - int(elapsed / windows.seconds)
        seconds = elapsed + max(missing, 0) * windows.seconds or windows.seconds
        return sum(count for _, count in own) / seconds, seconds

    def observed(self, now: float, windows: Windows) -> float:
        return self._measure(now, windows)[0]

    def throttle_seconds(self, now: float, windows: Windows, limit: float) -> float:
        """Return the wait after the last event that keeps the rate within `limit` per second: 0 to one window."""
        observed, seconds = self._measure(now, windows)
        if observed <= limit:
            return 0.0
        if limit <= 0:
            return windows.seconds  # no wait is long enough
        return min((observed - limit) / limit * seconds, windows.seconds)
