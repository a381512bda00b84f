"""Expiry of committed offsets, checked now and then, some groups at a time, for groups of all kinds:

topics that a member of the group subscribes to      never
a commit that brought its own expiry time            at that time
all others                                           retention after their age began, which the group says
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from pipeline_broker.state.group_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.offsets import CommittedOffsets

__all__ = ["ToCheck", "expired"]

OFFSETS_AT_ONCE_MAX = 1_000
"""Of groups that have so many together it is checked in one turn which have expired: 1 to 4 ms of work."""
GROUP_COST = 5
"""A group costs as much as so many offsets."""


class ToCheck:
    """The groups whose offsets are still to be checked."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._waiting)

    def add(self, group_ids: Iterable[str]) -> None:
        """All of them are to be checked, those of an earlier check that has not come to them once."""
        self._waiting = deque(dict.fromkeys((*self._waiting, *group_ids)))

    def some(self, count_offsets: Callable[[str], int]) -> Iterator[str]:
        """Those of the next turn: at least one, whatever it has."""
        left = OFFSETS_AT_ONCE_MAX
        while self._waiting and left > 0:
            left -= GROUP_COST + count_offsets(self._waiting[0])
            yield self._waiting.popleft()


def expired(group: Group, offsets: CommittedOffsets, retention_ms: int, now_ms: int) -> list[OffsetKey]:
    """The offsets of a group that have outlived their time."""
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
