"""Slots are opened in the order of requests, completed in any order, and released in the order of requests.

Rules of this room: sans-IO; slots are told apart by identity, never by an id that a client chose; a slot gets exactly
one result; whatever is released left the structure for good.
"""

from collections import deque
from typing import Any, Generic, Protocol, TypeVar

from stages.compilation import mypyc_attr

__all__ = ["ResponseOrder", "Slot", "SlotCompletedTwiceError"]


class Slot(Protocol):
    """Anything with a result that is None until the slot is completed."""

    result: Any


SlotT = TypeVar("SlotT", bound=Slot)


class SlotCompletedTwiceError(Exception):
    """A slot was given a second result: a bug of whoever completed it."""


@mypyc_attr(allow_interpreted_subclasses=True)  # properties watch it, and sabotage it, also where it is compiled
class ResponseOrder(Generic[SlotT]):
    """The response order of one connection.

    Attributes:
        opened: how many slots were opened so far, which is the sequence number of the next one.
    """

    __slots__ = ("_slots", "opened")

    def __init__(self) -> None:
        self._slots: deque[SlotT] = deque()
        self.opened = 0

    def __len__(self) -> int:
        """The number of slots that are not released: the requests in flight."""
        return len(self._slots)

    @property
    def head(self) -> SlotT | None:
        """The oldest slot that is not released."""
        return self._slots[0] if self._slots else None

    def open(self, slot: SlotT) -> None:
        """Add `slot` behind all others."""
        self._slots.append(slot)
        self.opened += 1

    def complete(self, slot: SlotT, result: object) -> list[SlotT]:
        """Give `slot` its result and take out all slots that are released by it, in order.

        Raises:
            SlotCompletedTwiceError: the slot has a result already.
        """
        if slot.result is not None:
            raise SlotCompletedTwiceError(f"{slot!r} has {slot.result!r} already")
        slot.result = result
        slots = self._slots
        released: list[SlotT] = []
        while slots and slots[0].result is not None:
            released.append(slots.popleft())
        return released

    def abandon(self) -> list[SlotT]:
        """Forget all slots, in order, because the connection is closed."""
        abandoned = list(self._slots)
        self._slots.clear()
        return abandoned
