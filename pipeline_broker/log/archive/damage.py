"""Which segments are known to be damaged, and which are gone.

Rules of this file: no I/O but one line of log for each damaged segment, when it is found; any thread may ask. What was
found damaged stays so until the process ends or the segment goes: a disk that returned bad bytes once is not believed
when it returns better ones. A segment that goes leaves its key behind for a while, so that a read that began before is
not taken for damage.
"""

import logging
import threading

from pipeline_broker.log.archive.segment_file import SegmentInfo
from pipeline_broker.log.errors import DamagedSegment

logger = logging.getLogger(__name__)

GONE_MAX = 4096  # the oldest are forgotten: reads that began so long ago have ended

#: Folder, base offset and generation: what no two contents ever share.
SegmentKey = tuple[str, int, int]


def segment_key(folder: str, segment: SegmentInfo) -> SegmentKey:
    """What tells the contents of this segment from all others."""
    return folder, segment.base_offset, segment.generation


def _copy(damage: DamagedSegment) -> DamagedSegment:
    """The same without a traceback, which would keep what was read in memory."""
    return DamagedSegment(damage.name, damage.position, damage.offset, damage.reason)


class DamageRecord:
    """See the rules."""

    def __init__(self) -> None:
        self._damaged: dict[SegmentKey, DamagedSegment] = {}
        self._gone: dict[SegmentKey, None] = {}
        self._lock = threading.Lock()

    def find(self, key: SegmentKey) -> DamagedSegment | None:
        """What is wrong with the segment, if that is known; made for this caller, to be raised."""
        found = self._damaged.get(key)
        return None if found is None else _copy(found)

    def mark(self, key: SegmentKey, damage: DamagedSegment) -> None:
        """From its position on the segment is not believed any more."""
        with self._lock:
            known = self._damaged.get(key)
            if key in self._gone or (known is not None and known.position <= damage.position):
                return
            self._damaged[key] = _copy(damage)
        if known is None:
            logger.error("%s; nothing from there on is served", damage)

    def is_gone(self, key: SegmentKey) -> bool:
        """Whether the segment was deleted or replaced."""
        return key in self._gone

    def retire(self, key: SegmentKey) -> None:
        """The segment is about to be deleted or replaced: what is wrong with it from now on is no damage."""
        with self._lock:
            self._damaged.pop(key, None)
            self._gone[key] = None
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
