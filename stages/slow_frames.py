"""A task that closes connections whose large frames arrive too slowly while others wait for memory."""

from __future__ import annotations

import logging

import trio

from stages.counted_warning import CountedWarning
from stages.partial_frames import PartialFrameBudget

__all__ = ["close_slow_frames"]

CHECK_SECONDS = 1.0

logger = logging.getLogger(__name__)


async def close_slow_frames(budget: PartialFrameBudget, contended: trio.lowlevel.ParkingLot) -> None:
    """Close connections whose large frames are slow, and log their number, until cancelled.

    Args:
        contended: woken when the first frame starts to wait.
    """
    warning = CountedWarning(
        logger, "closed %d connections: their large requests arrived too slowly while others waited for memory"
    )
    while True:
        if not budget.is_contended:
            await contended.park()
            continue
        await trio.sleep(CHECK_SECONDS)
        now = trio.current_time()
        slow = budget.slow_holders(now)
        for holder in slow:
            holder.close()
        warning.add(len(slow), now)
