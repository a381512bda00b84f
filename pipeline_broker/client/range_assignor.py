"""The range assignor of consumer groups, like Kafka's RangeAssignor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline_broker.client.topology import TopicPartition

__all__ = ["assign_ranges"]


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member.

    Each topic is divided into ranges, in the order of partitions and member ids. If they do not divide evenly, the
    first members get one partition more.

    Args:
        subscriptions: the topics of each member, by its id.
        partitions: the number of partitions by topic; an unknown topic has none.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        subscribers = sorted(member for member, topics in subscriptions.items() if topic in topics)
        each, more = divmod(partitions.get(topic, 0), len(subscribers))
        first = 0
        for place, member in enumerate(subscribers):
            end = first + each + (place < more)
            assigned[member] += [(topic, partition) for partition in range(first, end)]
            first = end
    return assigned
