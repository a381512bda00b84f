"""Updates of a group, one for each record. A value of None is a tombstone."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import attrs

from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.outcome import Completion

__all__ = ["GroupUpdated", "Subjects", "TargetEpoch", "Update"]


class Subjects(NamedTuple):
    member: IntEnum
    target: IntEnum
    current: IntEnum
    target_epoch: IntEnum


@attrs.frozen
class TargetEpoch:
    """The epoch of the target assignment, and the time at which it was computed."""

    epoch: int
    timestamp_ms: int = 0


@attrs.frozen
class Update:
    """One change of a group.

    Attributes:
        subject: numbered like the type of its record.
        name: a member id or a regular expression; empty for a change of the group itself.
        value: a value of the subject's class.
    """

    subject: IntEnum
    name: str
    value: Any


@attrs.define(eq=False)
class GroupUpdated:
    """The change of a `Write`: updates to show and responses to send once its records are durable.

    Each kind of group has a subclass.

    Attributes:
        is_removed: the group no longer exists as a group of its kind.
        successor: the classic group that replaces it, if any.
    """

    group_id: str
    updates: tuple[Update, ...]
    completions: list[Completion] = attrs.Factory(list)
    is_removed: bool = False
    successor: Group | None = None
