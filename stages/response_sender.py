"""The sender of the released responses of all connections of a server."""

from __future__ import annotations

import logging
from typing import Protocol

import trio

from stages.counted_warning import CountedWarning
from stages.unsent_responses import ResponseBudget

__all__ = ["MarkedConnection", "ResponseSender"]

logger = logging.getLogger(__name__)


class MarkedConnection(Protocol):
    def send_marked(self) -> None:
        """Send the released responses as far as the client takes them.

        An error closes this connection and must not escape.
        """


class ResponseSender:
    """The sender, which flushes marked connections at the end of a burst, or from a task.

    A burst is a turn of a handler, or a set of commits that ended together. Flushing where the burst ends spares a
    response the wait for another pass of the event loop, and for a task to wake up. Connections marked outside of a
    burst, or during a flush, are flushed by the task in the next pass.

    Args:
        budget: bounds the unsent responses of all connections. It is enforced after each flush, because bytes that
            clients take immediately do not count.
    """

    def __init__(self, budget: ResponseBudget) -> None:
        self._budget = budget
        self._marked: list[MarkedConnection] = []
        self._is_burst = self._is_flushing = self._is_idle = False
        self._wakeup = trio.lowlevel.ParkingLot()
        self._closed_warning = CountedWarning(logger, "closed %d connections: their clients read no responses")

    def mark(self, connection: MarkedConnection) -> None:
        """Register a connection for the next flush; it must not be marked again before that."""
        self._marked.append(connection)
        if not self._is_burst:
            self._wake()

    def begin_burst(self) -> None:
        """Delay flushes until `end_burst`. Bursts do not nest: one `end_burst` ends all."""
        self._is_burst = True

    def end_burst(self) -> None:
        """Flush the marked connections and enforce the budget; within a flush, leave both to the task."""
        self._is_burst = False
        if not self._marked:
            return
        if self._is_flushing:  # a flush may close a connection, and its end may complete requests of others
            self._wake()
        else:
            self._flush()

    def _wake(self) -> None:
        if self._is_idle:  # `unpark` without a waiter, for each response, takes a twelfth of a loaded broker's time
            self._is_idle = False
            self._wakeup.unpark()

    async def run(self) -> None:
        """Flush the connections marked outside of bursts, once per pass of the event loop, until cancelled."""
        while True:
            if not self._marked:
                self._is_idle = True
                await self._wakeup.park()
            self._flush()
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _flush(self) -> None:
        # A method, so that its locals keep no connection alive while `run` waits.
        self._is_flushing = True
        # Taken before sending: a flush may mark connections again, for the next flush.
        marked, self._marked = self._marked, []
        for connection in marked:
            connection.send_marked()
        closed = self._budget.keep_bound()
        if closed:
            self._closed_warning.add(closed, trio.current_time())
        self._is_flushing = False
