"""Sends the responses that were released, of all connections of a server.

Rules of this file: whoever releases a response marks its connection, and one flush sends everything that waits there. A
burst is a turn of a handler, or commits that ended together: what is marked meanwhile is sent when it ends. So a
response does not wait for a turn of the loop, nor for a task to be woken. What is marked outside of a burst, or while
others are flushed, is sent by a task in the next turn.
"""

from __future__ import annotations

import logging
from typing import Protocol

import trio

from stages.counted_warning import CountedWarning
from stages.unsent_responses import ResponseBudget

__all__ = ["MarkedConnection", "ResponseSender"]

logger = logging.getLogger(__name__)


class MarkedConnection(Protocol):
    """A connection with released responses."""

    def send_marked(self) -> None:
        """Send them, as far as the client takes them; an error closes this connection, and goes no further."""


class ResponseSender:
    """See the rules of the file.

    Args:
        budget: bounds the unsent responses of all connections; kept after each flush, because what clients take at
            once is no excess.
    """

    def __init__(self, budget: ResponseBudget) -> None:
        self._budget = budget
        self._marked: list[MarkedConnection] = []
        self._is_burst = self._is_flushing = self._is_idle = False
        self._wakeup = trio.lowlevel.ParkingLot()
        self._closed_warning = CountedWarning(logger, "closed %d connections: their clients take no responses")

    def mark(self, connection: MarkedConnection) -> None:
        """Have a connection flushed soon; it counts for the next flush, and must not be marked again before that."""
        self._marked.append(connection)
        if not self._is_burst:
            self._wake()

    def begin_burst(self) -> None:
        """More will be marked, until `end_burst`; a burst within another one ends both."""
        self._is_burst = True

    def end_burst(self) -> None:
        """Send what was marked."""
        self._is_burst = False
        if not self._marked:
            return
        if self._is_flushing:  # to flush may close connections, whose ends may complete requests of others
            self._wake()
        else:
            self._flush()

    def _wake(self) -> None:
        if self._is_idle:  # to unpark nobody, for each response, takes a twelfth of a loaded broker's time
            self._is_idle = False
            self._wakeup.unpark()

    async def run(self) -> None:
        """Send what no burst does, once per turn of the loop, until cancelled."""
        while True:
            if not self._marked:
                self._is_idle = True
                await self._wakeup.park()
            self._flush()
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _flush(self) -> None:
        """In a frame of its own, which keeps no connection alive while nothing is to be sent."""
        self._is_flushing = True
        marked, self._marked = self._marked, []
        for connection in marked:
            connection.send_marked()
        closed = self._budget.keep_bound()
        if closed:
            self._closed_warning.add(closed, trio.current_time())
        self._is_flushing = False
