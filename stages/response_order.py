"""The order of responses of a connection: slots open in the order of requests and are released in that order.

Counterpart in AutoMQ: `ChannelContext`, its queue of correlation ids; the server numbers slots itself, because
clients may repeat a correlation id.
"""

from collections import deque
from typing import Any, Generic, Protocol, TypeVar

from stages.compilation import mypyc_attr

__all__ = ["ResponseOrder", "Slot", "SlotCompletedTwiceError"]


class Slot(Protocol):
    """Any object with a `result` that is None until the slot is completed."""

    result: Any


SlotT = TypeVar("SlotT", bound=Slot)


class SlotCompletedTwiceError(Exception):
    """A slot got a second result: a bug of the caller."""


@mypyc_attr(allow_interpreted_subclasses=True)  # tests subclass it, to observe it and to break it
class ResponseOrder(Generic[SlotT]):
    """The response order of one connection.

    Slots are identified by object, never by an id from the client. A slot gets exactly one result. Released slots are
    removed for good.

    Attributes:
        opened: number of slots opened so far, which is the sequence number of the next one.
    """

    __slots__ = ("_slots", "opened")

    def __init__(self) -> None:
        self._slots: deque[SlotT] = deque()
        self.opened = 0

    def __len__(self) -> int:
        """Return the number of unreleased slots: the requests in flight."""
        return len(self._slots)

    @property
    def head(self) -> SlotT | None:
        """The oldest unreleased slot; None if all are released."""
        return self._slots[0] if self._slots else None

    def open(self, slot: SlotT) -> None:
        self._slots.append(slot)
        self.opened += 1

    def complete(self, slot: SlotT, result: object) -> list[SlotT]:
        """Set the result of `slot`, and remove and return all slots that it releases, in order.

        Raises:
            SlotCompletedTwiceError: if the slot already has a result.
        """
        if slot.result is not None:
            raise SlotCompletedTwiceError(f"{slot!r} already has the result {slot.result!r}")
        slot.result = result
        slots = self._slots
        released: list[SlotT] = []
        # The longest completed run from the oldest slot: one late response delays only the later ones of its
        # connection.
        while slots and slots[0].result is not None:
            released.append(slots.popleft())
        return released

    def abandon(self) -> list[SlotT]:
        """Remove and return all slots, in order, because the connection is closed."""
        abandoned = list(self._slots)
        self._slots.clear()
        return abandoned
