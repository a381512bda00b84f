"""Where a writer of the journal waits: for the archive, or for space or descriptors that the system refused it.

Rules of this file: whoever calls holds the lock that it was made with, except to read `obstacle`. It knows no files.
"""

import logging
import threading

from pipeline_broker.files.errors import with_remedy

__all__ = ["WriterRoom"]

RETRY_SECONDS = 1.0
"""After which a writer tries again what the system refused."""

logger = logging.getLogger(__name__)


class WriterRoom:
    """See the rules of the file.

    Args:
        lock: of the journal.

    Attributes:
        obstacle: why writes wait, and what is asked for now should be refused until that passes; any thread reads it.
        retry_seconds: see RETRY_SECONDS.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self.obstacle: OSError | None = None
        self.retry_seconds = RETRY_SECONDS
        self._archive_obstacle: OSError | None = None
        self._changed = threading.Condition(lock)

    def wait(self, obstacle: OSError) -> None:
        """The system refused a write: wait a while, or until something changes."""
        self._note(obstacle)
        self._changed.wait(self.retry_seconds)

    def wait_for_archive(self) -> None:
        """Wait until something changes, and refuse others meanwhile if the archive meets an obstacle itself."""
        if self._archive_obstacle is None:
            self.obstacle_passed()
        else:
            self._note(self._archive_obstacle)
        self._changed.wait()

    def obstacle_passed(self) -> bool:
        """Something was written; whether an obstacle has passed with that."""
        if self.obstacle is None:
            return False
        self.obstacle = None
        logger.warning("writes go on")
        return True

    def archive_waits(self, obstacle: OSError | None) -> None:
        """Why nothing can be archived now; None when that has passed."""
        self._archive_obstacle = obstacle
        self.notify()

    def notify(self) -> None:
        """Something has changed."""
        self._changed.notify_all()

    def _note(self, obstacle: OSError) -> None:
        if self.obstacle is None:
            logger.warning("nothing can be written, and writes are refused: %s", with_remedy(obstacle))
        self.obstacle = obstacle
