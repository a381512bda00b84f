"""The input partitions that an application's endpoint serves, for its interactive queries."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pipeline_broker.state.groups.streams.internal_topics import ConfiguredTopology, PartitionsOf
from pipeline_broker.state.groups.streams.tasks import PartitionsBySubtopology, Tasks

__all__ = ["EndpointPartitions", "endpoint_partitions"]

PartitionsByTopic: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


class EndpointPartitions(NamedTuple):
    active: PartitionsByTopic
    standby: PartitionsByTopic


def endpoint_partitions(
    assigned: Tasks, topology: ConfiguredTopology, partitions_of: PartitionsOf
) -> EndpointPartitions:
    """Return the partitions of the assigned tasks of one member; those of warm-up tasks are left out, as in Kafka."""
    inputs = {part.id: sorted(part.input_topics) for part in topology.subtopologies or ()}

    def by_topic(tasks: PartitionsBySubtopology) -> PartitionsByTopic:
        return tuple(
            (topic, tuple(sorted(number for number in numbers if number < (partitions_of(topic) or 0))))
            for subtopology_id, numbers in sorted(tasks.items())
            for topic in inputs.get(subtopology_id, ())
        )

    return EndpointPartitions(by_topic(assigned.active), by_topic(assigned.standby))
