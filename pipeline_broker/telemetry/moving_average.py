"""The average of something over about the last minute.

Rules of this file: time is passed in. Until the window is full it is the plain average since the beginning, afterwards
older values fade exponentially, as in Kafka's one-minute rates.
"""

import math

__all__ = ["MovingAverage"]

WINDOW_NS = 60_000_000_000


class MovingAverage:
    """An average weighted by the time that each value lasted.

    Attributes:
        value: the average; what it was made with until something was added.
    """

    __slots__ = ("_elapsed_ns", "value")

    def __init__(self, value: float) -> None:
        self.value = value
        self._elapsed_ns = 0

    def add(self, value: float, lasted_ns: int) -> None:
        """The average over the last `lasted_ns` nanoseconds, more than 0, was `value`."""
        self._elapsed_ns += lasted_ns
        weight = max(1.0 - math.exp(-lasted_ns / WINDOW_NS), lasted_ns / self._elapsed_ns)
        self.value += weight * (value - self.value)
