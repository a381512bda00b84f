"""Expiry of committed offsets, checked now and then, for groups of all kinds:

topics that a member of the group subscribes to      never
a commit that brought its own expiry time            at that time
all others                                           retention after their age began, which the group says
"""

from __future__ import annotations

from pipeline_broker.state.group_records import CommittedOffset, OffsetKey
from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.offsets import CommittedOffsets

__all__ = ["expired"]


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
