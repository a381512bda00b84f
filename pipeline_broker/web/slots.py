"""Which connections a small HTTP server has open, and which of them makes room for a newcomer.

Rules of this file: sans-IO. A client that is slow, or sends nothing, keeps nobody out: where all slots are taken, the
oldest connection whose answer has left is closed for the newcomer, else the oldest whose request is not complete, else
the oldest that is being answered. A stream of events is never closed for another connection.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

__all__ = ["Slot", "Slots", "Stage"]


class Stage(enum.IntEnum):
    """How far a connection is; the lowest goes first."""

    LINGERING = 0
    RECEIVING = 1
    ANSWERING = 2
    STREAMING = 3


class Slot:
    """One connection.

    Args:
        close: ends it.
    """

    __slots__ = ("close", "stage")

    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close
        self.stage = Stage.RECEIVING


class Slots:
    """The connections of one server.

    Args:
        slots_max: open ones at a time.
    """

    def __init__(self, slots_max: int) -> None:
        self._slots_max = slots_max
        self._taken: dict[Slot, None] = {}  # the oldest first

    def take(self, close: Callable[[], None]) -> Slot | None:
        """A slot for a newcomer, for which another connection may have been closed; None where each streams."""
        if len(self._taken) >= self._slots_max:
            victim = min(self._taken, key=lambda slot: slot.stage)  # of the same stage the first
            if victim.stage is Stage.STREAMING:
                return None
            self.release(victim)
            victim.close()
        slot = Slot(close)
        self._taken[slot] = None
        return slot

    def release(self, slot: Slot) -> None:
        """The connection has ended; one that was closed for another has none any more."""
        self._taken.pop(slot, None)

    def __len__(self) -> int:
        return len(self._taken)
