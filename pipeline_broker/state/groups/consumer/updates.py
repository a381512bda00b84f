"""What can change in a consumer group: one update for each record.

Rules of this room: see `member.py`. A value of None says that the subject is gone.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import attrs

from pipeline_broker.state.groups.consumer.member import CurrentAssignment, MemberMetadata, Partitions
from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.outcome import Completion

__all__ = ["GroupEpoch", "GroupUpdated", "ResolvedRegex", "Subject", "TargetEpoch", "Update", "Value"]


class Subject(IntEnum):
    """What an update is about: the type of its record."""

    GROUP_EPOCH = 3
    PARTITION_METADATA = 4  # written by Kafka before 4.1, and forgotten as soon as anything is written
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


@attrs.frozen
class GroupEpoch:
    """The group's epoch, and a hash of the topics that it was decided upon."""

    epoch: int
    metadata_hash: int = 0


@attrs.frozen
class TargetEpoch:
    """The epoch of the target assignment, and when it was made."""

    epoch: int
    timestamp_ms: int = 0


@attrs.frozen
class ResolvedRegex:
    """Which topics matched a regular expression.

    Attributes:
        version: of the topics that were looked at.
        timestamp_ms: when that was.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


Value: TypeAlias = GroupEpoch | MemberMetadata | TargetEpoch | Partitions | CurrentAssignment | ResolvedRegex | bool


@attrs.frozen
class Update:
    """One change.

    Attributes:
        name: a member's id, or a regular expression; empty for what is the group's own.
    """

    subject: Subject
    name: str
    value: Value | None


@attrs.define(eq=False)
class GroupUpdated:
    """The change of a `Write`: these updates are shown, and these answers given, when their records are durable.

    Attributes:
        goes: the group is no consumer group any more.
        successor: the group that it became instead, if it did.
    """

    group_id: str
    updates: tuple[Update, ...]
    completions: list[Completion] = attrs.Factory(list)
    goes: bool = False
    successor: Group | None = None
