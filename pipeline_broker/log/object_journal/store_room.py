"""The waiting of journal threads for an object store that does not answer."""

import logging
import threading

from pipeline_broker.files.errors import Obstacle
from pipeline_broker.objects.store import ObjectStoreError

__all__ = ["StoreRoom"]

REFUSE_FROM_SECONDS = 1.6
"""Writes are refused once the pause before a retry is this long. The outage has then lasted about as long."""

logger = logging.getLogger(__name__)


class StoreRoom:
    """The obstacle of writes to an object store. Implements `journal_port.Room`; any thread may call it.

    Commits under way wait for the end of an outage, however long. New requests are refused, because clients can retry
    by themselves.
    """

    def __init__(self) -> None:
        self.obstacle: OSError | None = None
        self._stopping = threading.Event()

    def pause(self, seconds: float, error: ObjectStoreError) -> None:
        """Wait before the next attempt of a write; see `settled_store.Pause`. A long pause sets the obstacle.

        Raises:
            ObjectStoreError: `stop` was called; the exception is `error`.
        """
        if seconds >= REFUSE_FROM_SECONDS:
            self.close(Obstacle(f"the object store does not answer: {error}"))
        if self._stopping.wait(seconds):
            raise error

    def close(self, obstacle: OSError) -> None:
        """Set the obstacle, so that new requests are refused. The first obstacle is logged."""
        if self.obstacle is None:
            logger.warning("the journal cannot be written, and the broker refuses writes: %s", obstacle)
        self.obstacle = obstacle

    def open(self) -> None:
        """Clear the obstacle, because writes are possible again. This is logged if an obstacle was set."""
        if self.obstacle is not None:
            self.obstacle = None
            logger.warning("the journal accepts writes again")

    def stop(self) -> None:
        """End all waiting: the current and later pauses raise their error."""
        self._stopping.set()
