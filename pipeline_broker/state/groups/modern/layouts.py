"""Layouts of the records of groups in `__consumer_offsets`, by the subjects of their updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipeline_broker.state.coordinator_records import read_record_key, read_record_value, record_key, record_value
from pipeline_broker.state.groups.modern.updates import TargetEpoch, Update
from pipeline_broker.state.outcome import StateRecord

__all__ = ["UNKNOWN_EPOCH", "Layout", "Layouts", "read_update", "record_of", "target_epoch_layout"]

VALUE_VERSION = 0
UNKNOWN_EPOCH = -1
"""Assignment epoch of a partition in records that contain none. It is older than every epoch that a client may send."""


class Layout(NamedTuple):
    """The record layout of one subject; `name` is the second field of its key, if it has one."""

    key: type[Any]
    name: str | None
    value: type[Any]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


Layouts = Mapping[Any, Layout]


def record_of(layouts: Layouts, group_id: str, update: Update) -> StateRecord:
    layout = layouts[update.subject]
    fields = {"group_id": group_id}
    if layout.name is not None:
        fields[layout.name] = update.name
    key = record_key(update.subject, layout.key(**fields))
    if update.value is None:
        return StateRecord(key, None)
    return StateRecord(key, record_value(VALUE_VERSION, layout.write(update.value)))


def read_update(layouts: Layouts, record_type: int, key: bytes, value: bytes | None) -> tuple[str, Update]:
    """Decode a record to the group id and the update.

    Raises:
        CorruptStateRecordError: the key or the value is malformed.
    """
    subject = next(subject for subject in layouts if subject == record_type)
    layout = layouts[subject]
    read = read_record_key(layout.key, key)
    name = "" if layout.name is None else getattr(read, layout.name)
    held = None if value is None else layout.read(read_record_value(layout.value, value))
    return read.group_id, Update(subject, name, held)


def target_epoch_layout(key: type[Any], value: type[Any]) -> Layout:
    return Layout(
        key,
        None,
        value,
        lambda held: value(assignment_epoch=held.epoch, assignment_timestamp=held.timestamp_ms),
        lambda read: TargetEpoch(read.assignment_epoch, read.assignment_timestamp),
    )
