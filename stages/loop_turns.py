"""Records of long turns of the event loop, during which every other task waits."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COMMIT", "LONG_TURN_SECONDS", "NOTED_TURN_SECONDS", "LoopTurns", "TurnsOf"]

NOTED_TURN_SECONDS: Final = 0.001
"""Turns up to this length are not recorded, so that measuring a short turn costs one comparison."""
LONG_TURN_SECONDS: Final = 0.005
"""Turns above this length count as long: every request should be answered within it."""
NAMES_MAX: Final = 128
"""Maximum of recorded names. Clients may send any number as an API key; further ones are recorded as OTHERS."""
OTHERS: Final = "others"
COMMIT: Final = "commit"
"""Name of the completion of commits, which makes entries visible and answers requests."""


class TurnsOf(NamedTuple):
    """The turns of one kind.

    Attributes:
        name: API number of the requests, or name of other work.
        longest_seconds: duration of the longest recorded turn.
        long_count: number of turns above LONG_TURN_SECONDS.
    """

    name: int | str
    longest_seconds: float
    long_count: int


class LoopTurns:
    """The long turns of a server by name; COMMIT is always among them."""

    def __init__(self) -> None:
        self._turns: dict[int | str, TurnsOf] = {COMMIT: TurnsOf(COMMIT, 0.0, 0)}

    def note(self, name: int | str, seconds: float) -> None:
        """Record a turn, beyond NAMES_MAX names as OTHERS; call this for turns above NOTED_TURN_SECONDS."""
        # Bounded, because clients choose the names.
        if name not in self._turns and len(self._turns) >= NAMES_MAX:
            name = OTHERS
        before = self._turns.get(name) or TurnsOf(name, 0.0, 0)
        is_long = seconds > LONG_TURN_SECONDS
        self._turns[name] = TurnsOf(name, max(before.longest_seconds, seconds), before.long_count + is_long)

    def statistics(self) -> tuple[TurnsOf, ...]:
        return tuple(sorted(self._turns.values(), key=lambda turns: turns.longest_seconds, reverse=True))
