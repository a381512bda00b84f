"""The assignor `range`: contiguous partitions of each topic, for consumers that join topics.

Each subscriber of a topic gets one range. Range sizes differ by at most one, and the first members get the longer ones.
Topics with equal subscribers and partition counts are divided equally (co-partitioning). Static members come first,
ordered by instance id, so that a restarted one gets its old range although its member id differs.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.state.groups.consumer.assignors.subscriptions import AssignorMember
from pipeline_broker.state.groups.consumer.member import Partitions

__all__ = ["assign_range"]


def assign_range(members: list[AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Partitions]:
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
