"""How the leader of a classic group deals out partitions: Kafka's RangeAssignor.

Rules of this file: no I/O. Every topic for itself: its subscribers in the order of their ids get ranges of partitions
in their order, the first ones one more where it does not come out even.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline_broker.client.topology import TopicPartition

__all__ = ["assign_ranges"]


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """The partitions of each member.

    Args:
        subscriptions: the topics of each member, by its id.
        partitions: how many each topic has; a topic that is not there has none.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        subscribers = sorted(member for member, topics in subscriptions.items() if topic in topics)
        each, more = divmod(partitions.get(topic, 0), len(subscribers))
        first = 0
        for place, member in enumerate(subscribers):
            behind = first + each + (place < more)
            assigned[member] += [(topic, partition) for partition in range(first, behind)]
            first = behind
    return assigned
