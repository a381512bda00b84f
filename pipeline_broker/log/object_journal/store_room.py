"""Whether a journal in a bucket takes writes, and how long its threads wait for a store that does not answer.

Rules of this file: any thread may call. An outage is waited for without end, until the broker ends; what is asked for
meanwhile is refused, because clients wait better by themselves.
"""

import logging
import threading

from pipeline_broker.files.errors import Obstacle
from pipeline_broker.objects.store import ObjectStoreError

__all__ = ["StoreRoom"]

REFUSE_FROM_SECONDS = 1.6
"""A try that waits so long for the next one comes after about as long an outage."""

logger = logging.getLogger(__name__)


class StoreRoom:
    """See the rules of the file, and `journal_port.Room`."""

    def __init__(self) -> None:
        self.obstacle: OSError | None = None
        self._stopping = threading.Event()

    def pause(self, seconds: float, error: ObjectStoreError) -> None:
        """Wait for the next try of a write; see `settled_store.Pause`."""
        if seconds >= REFUSE_FROM_SECONDS:
            self.close(Obstacle(f"the object store does not answer: {error}"))
        if self._stopping.wait(seconds):
            raise error

    def close(self, obstacle: OSError) -> None:
        """Have what comes from here on be refused."""
        if self.obstacle is None:
            logger.warning("nothing can be written, and writes are refused until it answers: %s", obstacle)
        self.obstacle = obstacle

    def open(self) -> None:
        """Something was written, or can be."""
        if self.obstacle is not None:
            self.obstacle = None
            logger.warning("writes go on")

    def stop(self) -> None:
        """Nothing is waited for any more."""
        self._stopping.set()
