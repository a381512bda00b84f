"""What a broker does while it serves and nobody asks: its timer, and the next journal segment ahead of its use.

Rules of this room: a task each, until cancelled; they decide nothing, and the wall clock is an argument.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.journal.journal import Journal

__all__ = ["prepare_ahead", "run_timer"]

logger = logging.getLogger(__name__)

TIMER_SECONDS_MAX = 1.0
"""The timer looks at the wall clock at least this often, so that a step of it is noticed."""


async def run_timer(
    broker: Broker,
    wakeup: trio.lowlevel.ParkingLot,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Let the broker do what is due; unparked by `wakeup`, it looks again."""
    task_status.started()
    while True:
        deadline_ms = broker.next_deadline_ms()
        now_ms = broker.ports.clock_ms()
        if deadline_ms > now_ms:
            with trio.move_on_after(min((deadline_ms - now_ms) / 1000, TIMER_SECONDS_MAX)):
                await wakeup.park()
        else:
            broker.advance(now_ms)
            await trio.lowlevel.checkpoint()


async def prepare_ahead(journal: Journal, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Zero-fill the next segment off the request path, whenever the journal asks for it."""
    token = trio.lowlevel.current_trio_token()
    wanted = trio.lowlevel.ParkingLot()
    journal.on_prepare_wanted = lambda: token.run_sync_soon(wanted.unpark_all)
    task_status.started()
    while True:
        try:
            await trio.to_thread.run_sync(journal.prepare_ahead, abandon_on_cancel=True)
        except OSError as error:
            logger.warning("the next journal segment could not be prepared: %s", error)
        await wanted.park()
