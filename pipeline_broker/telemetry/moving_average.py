"""A time-weighted average over about the last minute."""

import math

__all__ = ["MovingAverage"]

WINDOW_NS = 60_000_000_000


class MovingAverage:
    """An average in which each value weighs as long as it lasted.

    Until the window is full, the average is the plain one since the beginning. Afterwards older values fade
    exponentially, as in Kafka's one-minute rates.

    Args:
        value: the average before the first `add`.
    """

    __slots__ = ("_elapsed_ns", "value")

    def __init__(self, value: float) -> None:
        self.value = value
        self._elapsed_ns = 0

    def add(self, value: float, lasted_ns: int) -> None:
        self._elapsed_ns += lasted_ns
        weight = max(1.0 - math.exp(-lasted_ns / WINDOW_NS), lasted_ns / self._elapsed_ns)
        self.value += weight * (value - self.value)
