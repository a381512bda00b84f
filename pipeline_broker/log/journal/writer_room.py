"""The waiting of journal writers: for the archive, or for space or descriptors that the system refused."""

import errno
import logging
import threading
from collections.abc import Callable

from pipeline_broker.files.errors import with_remedy

__all__ = ["WriterRoom", "lacks_margin"]

RETRY_SECONDS = 1.0
"""Time between two attempts of a write that the system refused."""
RESUME_BYTES = 64 << 20
"""Free space with which journal and archive are written again after the disk was full; a twentieth of a smaller disk.

Without it each freed block would end and begin the refusals again, and the archiver would take it from the journal."""
RESUME_SHARE = 20

logger = logging.getLogger(__name__)


def lacks_margin(obstacle: OSError | None, disk_space: Callable[[], tuple[int, int]]) -> bool:
    """Return whether an obstacle was a full disk that has less free space than writes need to resume; see RESUME_BYTES.

    Args:
        disk_space: returns total and free bytes.
    """
    if obstacle is None or obstacle.errno != errno.ENOSPC:
        return False
    try:
        total_bytes, free_bytes = disk_space()
    except OSError:
        return False
    return free_bytes < min(RESUME_BYTES, total_bytes // RESUME_SHARE)


class WriterRoom:
    """A condition that journal writers wait on, and the obstacle that they wait for.

    Hold the lock given to the constructor for every call. Any thread may read `obstacle` without it.

    Args:
        lock: the journal's write lock.

    Attributes:
        obstacle: the reason why writes wait; None if writes are possible. While an obstacle is set, new requests should
            be refused.
        retry_seconds: see RETRY_SECONDS.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self.obstacle: OSError | None = None
        self.retry_seconds = RETRY_SECONDS
        self._archive_obstacle: OSError | None = None
        self._changed = threading.Condition(lock)

    def wait(self, obstacle: OSError) -> None:
        """Set and log the obstacle of a refused write, then wait for `retry_seconds` or until `notify`."""
        self._note(obstacle)
        self._changed.wait(self.retry_seconds)

    def wait_for_archive(self) -> None:
        """Wait until `notify`. An obstacle of the archive becomes the obstacle of writes."""
        if self._archive_obstacle is None:
            # A busy archive is not an obstacle: it will recycle a segment soon, so requests are queued and not refused.
            self.obstacle_passed()
        else:
            self._note(self._archive_obstacle)
        self._changed.wait()

    def obstacle_passed(self) -> bool:
        """Clear the obstacle after a successful write; return whether one was set."""
        if self.obstacle is None:
            return False
        self.obstacle = None
        logger.warning("the journal accepts writes again")
        return True

    def archive_waits(self, obstacle: OSError | None) -> None:
        """Set the reason why nothing can be archived now, and wake the waiting writers; None clears the reason."""
        self._archive_obstacle = obstacle
        self.notify()

    def notify(self) -> None:
        self._changed.notify_all()

    def _note(self, obstacle: OSError) -> None:
        if self.obstacle is None:
            archive = self._archive_obstacle
            # The archiver has logged the advice, if it waits for the same.
            is_known = archive is not None and archive.errno == obstacle.errno
            text = str(obstacle) if is_known else with_remedy(obstacle)
            logger.warning("the journal cannot be written, and the broker refuses writes: %s", text)
        self.obstacle = obstacle
