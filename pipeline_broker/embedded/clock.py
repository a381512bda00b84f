"""The clock of an embedded broker."""

from pipeline_broker.broker.ports import wall_clock_ms

__all__ = ["AdvancedClock"]


class AdvancedClock:
    """The wall clock plus an offset. It belongs to the broker's event loop.

    Attributes:
        ahead_ms: the offset.
    """

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return wall_clock_ms() + self.ahead_ms

    def advance(self, step_ms: int) -> None:
        self.ahead_ms += step_ms

    def return_to(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms
