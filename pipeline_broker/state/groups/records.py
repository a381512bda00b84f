"""Records of `__consumer_offsets` as they are read: by a start, by produce, and by `inspect`.

Rules of this file: bytes in, values out; nothing depends on what was read before. Whatever is wrong with the bytes is a
CorruptStateRecordError. The code of a kind of groups is imported for its first record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline_broker.state.group_records import OFFSET_TYPES, offset_from_value, offset_key, record_type
from pipeline_broker.state.groups.group import GroupType

__all__ = ["GroupRecord", "read_group_record"]

RECORD_OWNERS: Mapping[int, GroupType] = {
    2: GroupType.CLASSIC,
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), GroupType.CONSUMER),
    **dict.fromkeys(range(10, 16), GroupType.SHARE),
}
"""The types of records that a kind of groups reads. Others belong to brokers of another age and are stepped over."""


class GroupRecord(NamedTuple):
    """A record.

    Attributes:
        owner: the kind of groups that takes it over; None for a committed offset.
        change: what it says: of an offset its key and the offset, None where that is gone; else the kind's own.
    """

    owner: GroupType | None
    change: Any


def read_group_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Read a record; None for a type that is not known. Raises CorruptStateRecordError."""
    kind = record_type(key)
    if kind in OFFSET_TYPES:
        return GroupRecord(None, (offset_key(key), None if value is None else offset_from_value(value)))
    owner = RECORD_OWNERS.get(kind)
    return None if owner is None else GroupRecord(owner, _read(owner, kind, key, value))


def _read(owner: GroupType, kind: int, key: bytes, value: bytes | None) -> Any:
    if owner is GroupType.CLASSIC:
        from pipeline_broker.state.groups.classic.records import read_group  # noqa: PLC0415 - see the rules of the file

        return read_group(key, value)
    if owner is GroupType.CONSUMER:
        from pipeline_broker.state.groups.consumer.records import read_update  # noqa: PLC0415 - see above

        return read_update(kind, key, value)
    from pipeline_broker.state.groups.share.records import read_group_record as read  # noqa: PLC0415 - see above

    return read(kind, key, value)
