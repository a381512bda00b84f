"""A standby, which waits until it may claim the lease of a journal in an object store."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

import attrs
import trio

from pipeline_broker.node.errors import StartBlockedError
from pipeline_broker.objects.lease import LeaseTimes, Sight, Watch
from pipeline_broker.objects.store import ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.node.archive_store import ArchiveStore

__all__ = ["stand_by", "wait_for_lease"]

# Sessions without a renewal after which a standby logs why it still waits.
LATE_SESSIONS = 2

logger = logging.getLogger(__name__)


async def stand_by(
    config: BrokerConfig,
    store: ArchiveStore,
    start: Callable[[ArchiveStore], Awaitable[None]],
    standing_by: Callable[[], contextlib.AbstractAsyncContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Take over the journal when its owner stops or fails. Wait again if the takeover is blocked.

    Args:
        standing_by: returns a context that is open during a wait.
        start: runs the broker on the store, with the lease that it may claim. Raises StartBlockedError if the takeover
            is blocked.
    """
    times = LeaseTimes.of(config.broker_heartbeat_interval_ms, config.broker_session_timeout_ms)
    while True:
        async with standing_by():
            sight = await wait_for_lease(store.read_lease, times)
        try:
            await start(attrs.evolve(store, sight=sight))
        except StartBlockedError as failure:
            logger.warning("%s; this broker stands by again", failure)
            await trio.sleep(times.renew_seconds)
        else:
            return


async def wait_for_lease(read_lease: Callable[[], Sight], times: LeaseTimes) -> Sight:
    """Wait until the owner of a journal has given it up, or has not renewed its lease for a session.

    If the store does not respond, the owner may still be alive, so that the standby waits without limit.

    Args:
        read_lease: reads the lease; called in a thread; raises ObjectStoreError if the store does not respond.
        times: length of a session, and the interval of reads.

    Returns:
        the latest reading of the lease, which the standby may claim.
    """
    watch = Watch(times.session_seconds)
    answers = was_running = True
    while (sight := watch.claimable) is None:
        # A read shows the state at its start at best, so that its duration does not count as silence.
        asked_at = trio.current_time()
        try:
            seen = await trio.to_thread.run_sync(read_lease, abandon_on_cancel=True)
        except ObjectStoreError as error:
            if answers:
                logger.warning("the store does not respond, so the owner may still be alive: %s", error)
            answers = False
            watch = watch.miss(trio.current_time())
        else:
            watch = watch.see(seen, asked_at, trio.current_time())
            answers = True
        if watch.claimable is None:
            # Time in which this process did not run does not count: the owner may have renewed its lease unseen.
            if was_running and watch.still_seconds >= LATE_SESSIONS * times.session_seconds:
                was_running = False
                logger.warning(
                    "the owner has not renewed its lease for %.1f s, but this process was suspended for %.1f s of "
                    "that time: this broker waits longer",
                    watch.still_seconds,
                    watch.away_seconds,
                )
            await trio.sleep(times.look_seconds)
    if sight.is_free:
        logger.warning("the owner has given up its journal: this broker takes over")
    else:
        logger.warning("the owner has not renewed its lease for %.1f s: this broker takes over", watch.still_seconds)
    return sight
