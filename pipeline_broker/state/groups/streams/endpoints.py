"""The input partitions that an application's endpoint serves, for its interactive queries."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology, PartitionsOf
from pipeline_broker.state.groups.streams.tasks import PartitionsBySubtopology, Tasks

__all__ = ["EndpointPartitions", "endpoint_partitions"]

PartitionsByTopic: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


class EndpointPartitions(NamedTuple):
    active: PartitionsByTopic
    standby: PartitionsByTopic  # of warm-up tasks, too


def endpoint_partitions(
    assigned: Tasks, topology: ConfiguredTopology, partitions_of: PartitionsOf
) -> EndpointPartitions:
    inputs = {part.id: sorted(part.input_topics) for part in topology.subtopologies or ()}

    def by_topic(*roles: PartitionsBySubtopology) -> PartitionsByTopic:
        tasks = {part: frozenset[int]().union(*(role.get(part, ()) for role in roles)) for part in sorted(inputs)}
        found = (
            (topic, tuple(sorted(number for number in numbers if number < (partitions_of(topic) or 0))))
            for part, numbers in tasks.items()
            for topic in inputs[part]
        )
        return tuple((topic, numbers) for topic, numbers in found if numbers)

    return EndpointPartitions(by_topic(assigned.active), by_topic(assigned.standby, assigned.warmup))
