"""Subjects and values of the updates of a streams group."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import attrs

from pipeline_broker.state.groups.modern.updates import GroupUpdated

__all__ = ["GroupEpoch", "StreamsGroupUpdated", "Subject"]


class Subject(IntEnum):
    GROUP_EPOCH = 17
    MEMBER = 19
    TARGET_EPOCH = 20
    TARGET = 21
    CURRENT = 22
    TOPOLOGY = 23


@attrs.frozen
class GroupEpoch:
    """The group epoch, and the input of assignments when it was bumped.

    Attributes:
        metadata_hash: hash of the topics of the topology.
        validated_topology_epoch: epoch of the topology whose topics exist as they must; -1 if some do not.
        assignment_configs: the settings of the assignment, by Kafka's names.
        stored_description_epoch, failed_description_epoch: topology epochs of descriptions (KIP-1331), which only a
            broker with a plugin class sets.
    """

    epoch: int
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    assignment_configs: Mapping[str, str] = attrs.Factory(dict)
    stored_description_epoch: int = -1
    failed_description_epoch: int = -1


class StreamsGroupUpdated(GroupUpdated):
    pass
