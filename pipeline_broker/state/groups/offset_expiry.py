"""Expiry of committed offsets, for all kinds of groups. A periodic check takes a few groups per turn.

| offset | expires |
|---|---|
| of a topic that a member subscribes to | never |
| committed with its own expiry time | at that time |
| any other | after the retention, counted from the start of its age (`Group.offset_age`) |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.offsets import CommittedOffsets

__all__ = ["ToCheck", "expired"]

# Checking this many offsets takes 1 to 4 ms of a turn.
OFFSETS_AT_ONCE_MAX = 1_000
# A group takes as long to check as this many offsets.
GROUP_COST = 5


class ToCheck:
    def __init__(self) -> None:
        self._waiting: deque[str] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, group_ids: Iterable[str]) -> None:
        """Queue groups. A group that still waits from an earlier check is queued once."""
        self._waiting = deque(dict.fromkeys((*self._waiting, *group_ids)))

    def next_groups(self, count_offsets: Callable[[str], int]) -> Iterator[str]:
        """Yield the groups of the next turn: at least one if any waits, however many offsets it has."""
        left = OFFSETS_AT_ONCE_MAX
        while self._waiting and left > 0:
            left -= GROUP_COST + count_offsets(self._waiting[0])
            yield self._waiting.popleft()


def expired(group: Group, offsets: CommittedOffsets, retention_ms: int, now_ms: int) -> list[OffsetKey]:
    age_begins_ms = group.offset_age()
    if age_begins_ms is None:
        return []
    begins_ms = age_begins_ms

    def is_expired(key: OffsetKey, committed: CommittedOffset) -> bool:
        if group.is_subscribed_to(key.topic):
            return False
        if committed.expire_timestamp_ms >= 0:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - begins_ms(committed) >= retention_ms

    return offsets.expired(group.group_id, is_expired)
