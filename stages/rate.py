"""How many events per second, over the last few windows.

Rules of this room: sans-IO; it imports nothing of ours; time is passed in, in seconds, and never runs backwards.

A rate is measured as Apache Kafka measures every quota: events are counted in windows that begin with an event; those
that began too long ago are forgotten; the sum is divided by the time since the oldest window began, which counts as at
least all windows but one. So a client that was quiet may do at once what the limit allows in that time.
"""

from __future__ import annotations

import attrs

__all__ = ["Rate", "Windows"]


@attrs.frozen
class Windows:
    """How rates are measured.

    Attributes:
        count: how many windows are remembered, the current one included (`quota.window.num`).
        seconds: length of each (`quota.window.size.seconds`).
    """

    count: int = attrs.field(default=11, validator=attrs.validators.ge(1))
    seconds: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))


class Rate:
    """Events per second."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: list[list[float]] = []  # of each: when it began, and its events; few, so a list is smallest

    def record(self, now: float, windows: Windows) -> None:
        """Count an event."""
        own = self._windows
        if own and now - own[-1][0] < windows.seconds:
            own[-1][1] += 1
        else:
            self._forget(now, windows)
            own.append([now, 1])

    def take_back(self, recorded: float) -> None:
        """Uncount an event that was recorded at that time, unless it is forgotten already."""
        for window in reversed(self._windows):
            if window[0] <= recorded:
                window[1] -= window[1] > 0
                return

    def _forget(self, now: float, windows: Windows) -> None:
        own, remembered_seconds = self._windows, windows.count * windows.seconds
        while own and now - own[0][0] >= remembered_seconds:
            del own[0]

    def is_over(self, now: float, windows: Windows) -> bool:
        """Whether nothing is remembered any more, so that it can be dropped."""
        self._forget(now, windows)
        return not any(count for _, count in self._windows)

    def _measure(self, now: float, windows: Windows) -> tuple[float, float]:
        """The rate and the seconds that it was measured over."""
        self._forget(now, windows)
        own = self._windows
        elapsed = now - own[0][0] if own else 0.0
        missing = windows.count - 1 - int(elapsed / windows.seconds)
        seconds = elapsed + max(missing, 0) * windows.seconds or windows.seconds
        return sum(count for _, count in own) / seconds, seconds

    def observed(self, now: float, windows: Windows) -> float:
        """Events per second."""
        return self._measure(now, windows)[0]

    def throttle_seconds(self, now: float, windows: Windows, limit: float) -> float:
        """How long whoever was recorded last must wait to keep to the limit: 0, or at most one window."""
        observed, seconds = self._measure(now, windows)
        if observed <= limit:
            return 0.0
        if limit <= 0:
            return windows.seconds  # no wait would be long enough
        return min((observed - limit) / limit * seconds, windows.seconds)
