"""Close connections whose large frames arrive too slowly while others wait for room.

Rules of this room: what is too slow is decided in `partial_frames`; here time passes.
"""

from __future__ import annotations

import logging

import trio

from stages.counted_warning import CountedWarning
from stages.partial_frames import PartialFrameBudget

__all__ = ["close_slow_frames"]

CHECK_SECONDS = 1.0
"""How often rates are looked at while a frame waits for room."""

logger = logging.getLogger(__name__)


async def close_slow_frames(budget: PartialFrameBudget, contended: trio.lowlevel.ParkingLot) -> None:
    """Watch the budget until cancelled; `contended` is woken when the first frame begins to wait."""
    warning = CountedWarning(logger, "closed %d connections: their large requests came too slowly while others waited")
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
