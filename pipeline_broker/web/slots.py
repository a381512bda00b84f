"""Slots for the open connections of a small HTTP server, with eviction.

Slow or silent clients must not lock out others. If all slots are taken, a new connection closes the oldest one of the
lowest stage: first a connection that has been answered, then one without a complete request, then one that is being
answered. Streams of events are never evicted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

__all__ = ["Slot", "Slots", "Stage"]


class Stage(enum.IntEnum):
    """The progress of a connection. The lowest stage is evicted first."""

    LINGERING = 0
    RECEIVING = 1
    ANSWERING = 2
    STREAMING = 3


class Slot:
    """One open connection.

    Args:
        close: closes the connection.
    """

    __slots__ = ("close", "stage")

    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close
        self.stage = Stage.RECEIVING


class Slots:
    """The connections of one server.

    Args:
        slots_max: number of connections that may be open at a time.
    """

    def __init__(self, slots_max: int) -> None:
        self._slots_max = slots_max
        self._taken: dict[Slot, None] = {}  # oldest first

    def take(self, close: Callable[[], None]) -> Slot | None:
        """Return a slot for a new connection, evicting another one if necessary; None if all of them stream events."""
        if len(self._taken) >= self._slots_max:
            victim = min(self._taken, key=lambda slot: slot.stage)  # the oldest one of the lowest stage
            if victim.stage is Stage.STREAMING:
                return None
            # Free the slot now: the victim's task ends later.
            self.release(victim)
            victim.close()
        slot = Slot(close)
        self._taken[slot] = None
        return slot

    def release(self, slot: Slot) -> None:
        self._taken.pop(slot, None)  # an evicted connection has lost its slot already

    def __len__(self) -> int:
        return len(self._taken)
