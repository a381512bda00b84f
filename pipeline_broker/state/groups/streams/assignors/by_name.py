"""The task assignors that a broker offers, the default first."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.state.groups.streams.assignors.members import AssignedMember, AssignmentConfigs, TaskAssignor
from pipeline_broker.state.groups.streams.assignors.sticky import assign_sticky
from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology
from pipeline_broker.state.groups.streams.tasks import Tasks

__all__ = ["ASSIGNORS", "NAMES", "assign"]

ASSIGNORS: Mapping[str, TaskAssignor] = {"sticky": assign_sticky}
NAMES = tuple(ASSIGNORS)


def assign(
    name: str, members: Mapping[str, AssignedMember], topology: ConfiguredTopology, configs: AssignmentConfigs
) -> dict[str, Tasks]:
    return ASSIGNORS[name](members, topology, configs)
