"""Updates of a consumer group, one for each record. A value of None is a tombstone."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

import attrs

from pipeline_broker.state.groups.consumer.member import CurrentAssignment, MemberMetadata, Partitions
from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.outcome import Completion

__all__ = ["GroupEpoch", "GroupUpdated", "ResolvedRegex", "Subject", "TargetEpoch", "Update", "Value"]


class Subject(IntEnum):
    """Subjects of updates, numbered like the types of their records."""

    GROUP_EPOCH = 3
    PARTITION_METADATA = 4  # written by Kafka before 4.1; gets a tombstone with the next group epoch
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


@attrs.frozen
class GroupEpoch:
    """The group epoch, and the hash of the subscribed topics when it was bumped."""

    epoch: int
    metadata_hash: int = 0


@attrs.frozen
class TargetEpoch:
    """The epoch of the target assignment, and the time at which it was computed."""

    epoch: int
    timestamp_ms: int = 0


@attrs.frozen
class ResolvedRegex:
    """The topics that matched a regular expression.

    Attributes:
        version: version of the topics at that time.
        timestamp_ms: time of the match.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


Value: TypeAlias = GroupEpoch | MemberMetadata | TargetEpoch | Partitions | CurrentAssignment | ResolvedRegex | bool


@attrs.frozen
class Update:
    """One change of a group.

    Attributes:
        name: a member id or a regular expression; empty for a change of the group itself.
    """

    subject: Subject
    name: str
    value: Value | None


@attrs.define(eq=False)
class GroupUpdated:
    """The change of a `Write`: updates to show and responses to send once its records are durable.

    Attributes:
        is_removed: the group no longer exists as a consumer group.
        successor: the classic group that replaces it, if any.
    """

    group_id: str
    updates: tuple[Update, ...]
    completions: list[Completion] = attrs.Factory(list)
    is_removed: bool = False
    successor: Group | None = None
