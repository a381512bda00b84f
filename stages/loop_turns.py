"""Who keeps the event loop for long, while everybody else waits.

Rules of this file: pure, times are passed in. Those who run on the loop read a clock anyway where a turn of theirs
ends; of a short turn nothing is kept, so that to measure costs a comparison. What is kept is bounded, however turns are
named.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COMMIT", "LONG_TURN_SECONDS", "NOTED_TURN_SECONDS", "LoopTurns", "TurnsOf"]

NOTED_TURN_SECONDS: Final = 0.001
"""A turn that took no longer is not noted."""
LONG_TURN_SECONDS: Final = 0.005
"""A turn is long from here on: what all requests should be answered in."""
NAMES_MAX: Final = 128
"""Clients name APIs by any number; what comes later than so many is noted together, as OTHERS."""
OTHERS: Final = "others"
COMMIT: Final = "commit"
"""What follows a commit: entries become visible, and requests are answered."""


class TurnsOf(NamedTuple):
    """The turns of one kind.

    Attributes:
        name: the API of the requests, as the application numbers it, or what else was done.
        longest_seconds: the longest one.
        long_count: how many were long.
    """

    name: int | str
    longest_seconds: float
    long_count: int


class LoopTurns:
    """See the rules of the file; what follows commits is always there, and the rest where it took long."""

    def __init__(self) -> None:
        self._turns: dict[int | str, TurnsOf] = {COMMIT: TurnsOf(COMMIT, 0.0, 0)}

    def note(self, name: int | str, seconds: float) -> None:
        """Take note of a turn; worth a call from NOTED_TURN_SECONDS on."""
        if name not in self._turns and len(self._turns) >= NAMES_MAX:
            name = OTHERS
        before = self._turns.get(name) or TurnsOf(name, 0.0, 0)
        is_long = seconds > LONG_TURN_SECONDS
        self._turns[name] = TurnsOf(name, max(before.longest_seconds, seconds), before.long_count + is_long)

    def statistics(self) -> tuple[TurnsOf, ...]:
        """Those that were noted, the longest first."""
        return tuple(sorted(self._turns.values(), key=lambda turns: turns.longest_seconds, reverse=True))
