"""Descriptions of topologies (KIP-1331), for a broker without `group.streams.topology.description.plugin.class`.

As in Kafka, such a broker never requests a description from a member, rejects updates, and describes none.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["NO_PLUGIN", "DescriptionStatus", "description_status"]

NO_PLUGIN = "The broker has no streams group topology description plugin configured."
"""The message of UNSUPPORTED_VERSION, the answer to each update."""


class DescriptionStatus(IntEnum):
    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


def description_status(*, is_requested: bool, is_described: bool) -> DescriptionStatus:
    # A group whose description has an error keeps the default.
    return DescriptionStatus.NOT_STORED if is_requested and is_described else DescriptionStatus.NOT_REQUESTED
