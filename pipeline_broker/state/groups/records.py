"""Decoding of `__consumer_offsets` records, for startup, produce requests and `inspect`.

Decoding has no state. Invalid bytes raise a CorruptStateRecordError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline_broker.state.coordinator_records import record_type
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.offset_records import OFFSET_TYPES, offset_from_value, offset_key

__all__ = ["RECORD_TYPES", "GroupRecord", "read_group_record"]

RECORD_OWNERS: Mapping[int, GroupType] = {
    2: GroupType.CLASSIC,
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), GroupType.CONSUMER),
    **dict.fromkeys(range(10, 16), GroupType.SHARE),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), GroupType.STREAMS),
}
"""Record types by the kind of group they belong to. Other types belong to other Kafka versions and are skipped."""
RECORD_TYPES = (*OFFSET_TYPES, *RECORD_OWNERS)


class GroupRecord(NamedTuple):
    """A decoded record.

    Attributes:
        owner: the kind of group that applies it; None for a committed offset.
        change: for an offset its key and the offset (None for a tombstone); otherwise defined by the kind.
    """

    owner: GroupType | None
    change: Any


def read_group_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Decode a record; return None if its type is unknown.

    Raises:
        CorruptStateRecordError: the key or the value is malformed.
    """
    kind = record_type(key)
    if kind in OFFSET_TYPES:
        return GroupRecord(None, (offset_key(key), None if value is None else offset_from_value(value)))
    owner = RECORD_OWNERS.get(kind)
    return None if owner is None else GroupRecord(owner, _read(owner, kind, key, value))


def _read(owner: GroupType, kind: int, key: bytes, value: bytes | None) -> Any:
    if owner is GroupType.CLASSIC:
        from pipeline_broker.state.groups.classic.records import read_group  # noqa: PLC0415 - load a kind on first use

        return read_group(key, value)
    if owner is GroupType.CONSUMER:
        from pipeline_broker.state.groups.consumer.records import LAYOUTS  # noqa: PLC0415 - load on first use
        from pipeline_broker.state.groups.modern.layouts import read_update  # noqa: PLC0415 - load on first use

        return read_update(LAYOUTS, kind, key, value)
    if owner is GroupType.STREAMS:
        from pipeline_broker.state.groups.modern.layouts import read_update  # noqa: PLC0415 - load on first use
        from pipeline_broker.state.groups.streams.records import LAYOUTS  # noqa: PLC0415 - load on first use

        return read_update(LAYOUTS, kind, key, value)
    from pipeline_broker.state.groups.share.records import read_group_record as read  # noqa: PLC0415 - on first use

    return read(kind, key, value)
