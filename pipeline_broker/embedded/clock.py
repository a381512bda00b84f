"""The clock of an embedded broker: the wall clock, and as much ahead of it as was asked for.

Rules of this file: read on the broker's thread, set there.
"""

from pipeline_broker.broker.ports import wall_clock_ms

__all__ = ["AdvancedClock"]


class AdvancedClock:
    """See above.

    Attributes:
        ahead_ms: of the wall clock.
    """

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970, as this broker has them."""
        return wall_clock_ms() + self.ahead_ms
