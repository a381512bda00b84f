"""A broker that waits for another one's end: looks at the lease of a journal until that may be claimed.

Rules of this file: when that is decides `objects/lease`; here are the looks, and the clock. A store that does not
answer says nothing, and is asked again without end. Why it waits longer than a session, and why no more, is one line.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from pipeline_broker.objects.lease import LeaseTimes, Sight, Watch
from pipeline_broker.objects.store import ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["wait_for_lease"]

LATE_SESSIONS = 2
"""After so many without life a standby says why it still waits."""

logger = logging.getLogger(__name__)


async def wait_for_lease(look: Callable[[], Sight], times: LeaseTimes) -> Sight:
    """Return when the owner of a log has given it up, or has shown no life for a session.

    Args:
        look: at the lease; called in a thread; raises ObjectStoreError.
        times: how long a session is.
    """
    watch = Watch(times.session_seconds)
    answers = is_let_run = True
    while (sight := watch.claimable) is None:
        asked_at = trio.current_time()
        try:
            seen = await trio.to_thread.run_sync(look, abandon_on_cancel=True)
        except ObjectStoreError as error:
            if answers:
                logger.warning("the store does not answer, so nothing is known of the owner: %s", error)
            answers = False
            watch = watch.miss(trio.current_time())
        else:
            watch = watch.see(seen, asked_at, trio.current_time())
            answers = True
        if watch.claimable is None:
            if is_let_run and watch.still_seconds >= LATE_SESSIONS * times.session_seconds:
                is_let_run = False
                logger.warning(
                    "the owner has shown no life for %.1f s, of which this process was not let run for %.1f s: "
                    "it waits longer",
                    watch.still_seconds,
                    watch.away_seconds,
                )
            await trio.sleep(times.look_seconds)
    if sight.is_free:
        logger.warning("the owner has given its journal up: this one takes over")
    else:
        logger.warning("the owner has shown no life for %.1f s: this one takes over", watch.still_seconds)
    return sight
