"""Subjects and values of the updates of a consumer group."""

from __future__ import annotations

from enum import IntEnum

import attrs

from pipeline_broker.state.groups.modern.updates import GroupUpdated

__all__ = ["ConsumerGroupUpdated", "GroupEpoch", "ResolvedRegex", "Subject"]


class Subject(IntEnum):
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
class ResolvedRegex:
    """The topics that matched a regular expression.

    Attributes:
        version: version of the topics at that time.
        timestamp_ms: time of the match.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroupUpdated(GroupUpdated):
    pass
