"""The assignor `range`: neighbouring partitions of each topic, so that topics that are joined go to the same members.

Of each topic every member that subscribes to it gets a run of partitions; runs differ by one at most, and the first
members have the longer ones. Topics with the same subscribers and as many partitions are cut alike (co-partitioning).
Static members come first, by their instance ids, so that one that comes back under another id finds its old run.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.state.groups.consumer.assignors.subscriptions import AssignorMember
from pipeline_broker.state.groups.consumer.member import Partitions

__all__ = ["assign_range"]


def assign_range(members: list[AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Give each topic's partitions in ranges, in the order of the members."""
    ordered = sorted(members, key=_place)
    subscribers: dict[bytes, list[AssignorMember]] = {}
    for member in ordered:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member)
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic_id, takers in subscribers.items():
        short, longer = divmod(partition_counts[topic_id], len(takers))
        begin = 0
        for index, member in enumerate(takers):
            end = begin + short + (index < longer)
            if end > begin:
                assigned[member.member_id][topic_id] = frozenset(range(begin, end))
            begin = end
    return {**assigned}


def _place(member: AssignorMember) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member.member_id
