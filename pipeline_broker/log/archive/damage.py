"""A record of damaged and deleted segments."""

import logging
import threading

from pipeline_broker.log.archive.segment_file import SegmentInfo
from pipeline_broker.log.errors import REMEDY, DamagedSegment

logger = logging.getLogger(__name__)

GONE_MAX = 4096  # older ones are forgotten, because reads that started before their deletion have ended

#: Folder, base offset and generation. Two different contents never share a key.
SegmentKey = tuple[str, int, int]


def segment_key(folder: str, segment: SegmentInfo) -> SegmentKey:
    return folder, segment.base_offset, segment.generation


def _copy(damage: DamagedSegment) -> DamagedSegment:
    # Without a traceback, which would keep read buffers in memory.
    return DamagedSegment(damage.name, damage.position, damage.offset, damage.reason)


class DamageRecord:
    """The segments that are known to be damaged, or were deleted. Any thread may use it.

    Damage is final until the process ends or the segment is deleted: once a disk returned bad bytes, later good ones
    are not trusted. Keys of deleted segments are kept for a while, so that a read that started earlier does not report
    the missing file as damage. Each damaged segment is logged once.
    """

    def __init__(self) -> None:
        self._damaged: dict[SegmentKey, DamagedSegment] = {}
        self._gone: dict[SegmentKey, None] = {}
        self._lock = threading.Lock()

    def find(self, key: SegmentKey) -> DamagedSegment | None:
        """Return the recorded damage of a segment; None without one. The caller may raise it."""
        found = self._damaged.get(key)
        return None if found is None else _copy(found)

    def mark(self, key: SegmentKey, damage: DamagedSegment) -> None:
        """Record damage; log the first damage of each segment. Nothing from the damaged position is served any more.

        Damage is ignored if the segment was deleted, or is already damaged at or before the position.
        """
        with self._lock:
            known = self._damaged.get(key)
            # A deleted segment has no damage. Of two damages the first counts, because nothing after it is served.
            if key in self._gone or (known is not None and known.position <= damage.position):
                return
            self._damaged[key] = _copy(damage)
        if known is None:
            logger.error("%s; the broker serves no more of this segment. %s", damage, REMEDY)

    def is_gone(self, key: SegmentKey) -> bool:
        return key in self._gone

    def retire(self, key: SegmentKey) -> None:
        """Note that a segment will be deleted or replaced, so that later errors of its reads do not count as damage."""
        with self._lock:
            self._damaged.pop(key, None)
            self._gone[key] = None
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
