"""The assignor `uniform`: balances the number of partitions per member with as few moves as possible.

1. Each member keeps its previous partitions. If all subscriptions are equal, it keeps at most its fair share, as in
   Kafka's UniformHomogeneousAssignmentBuilder.
2. Unassigned partitions go to the subscriber with the fewest partitions.
3. Topic by topic, partitions move from the member with the most to the subscriber with the fewest, while the two differ
   by at least two.

Each move reduces the sum of squared loads, so step 3 terminates. Afterwards the owner of a partition has at most one
partition more than any other subscriber of the topic. If all subscriptions are equal, loads differ by at most one and
the number of moves is minimal.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from pipeline_broker.state.groups.consumer.assignors.subscriptions import AssignorMember
from pipeline_broker.state.groups.consumer.member import Partitions

__all__ = ["assign_uniform"]

DIFFERENCE_MAX = 1


def assign_uniform(members: list[AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Partitions]:
    """Assign nearly equal numbers of partitions, with few moves."""
    ordered = sorted(members, key=lambda member: member.member_id)
    plan = _Plan(ordered, partition_counts)
    if ordered and all(member.topic_ids == ordered[0].topic_ids for member in ordered):
        plan.free_excess()
    for topic_id in plan.topic_ids:
        plan.give_out(topic_id)
    moved = True
    while moved:
        moved = False
        for topic_id in plan.topic_ids:
            moved = plan.balance(topic_id) or moved
    return plan.result(ordered)


class _Plan:
    """A partial assignment; `loads` counts the partitions of each member over all topics."""

    def __init__(self, members: list[AssignorMember], partition_counts: Mapping[bytes, int]) -> None:
        self.loads = {member.member_id: 0 for member in members}
        self._subscribers: dict[bytes, list[str]] = {}
        for member in members:
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(member.member_id)
        # Topics with the fewest subscribers first: they have the least choice.
        self.topic_ids = sorted(self._subscribers, key=lambda topic_id: (len(self._subscribers[topic_id]), topic_id))
        self._free = {topic_id: set(range(partition_counts[topic_id])) for topic_id in self.topic_ids}
        self._held: dict[bytes, dict[str, set[int] | frozenset[int]]] = {topic_id: {} for topic_id in self.topic_ids}
        for member in members:
            for topic_id, target in member.target.items():
                if topic_id in member.topic_ids and not target.isdisjoint(free := self._free[topic_id]):
                    kept = target if target <= free else target & free
                    free -= kept
                    self._held[topic_id][member.member_id] = kept
                    self.loads[member.member_id] += len(kept)

    def _changing(self, topic_id: bytes, member_id: str) -> set[int]:
        # Copy on write: most members keep their partitions, and share the sets of their previous targets.
        held = self._held[topic_id]
        partitions = held.get(member_id, frozenset())
        if isinstance(partitions, frozenset):
            partitions = held[member_id] = set(partitions)
        return partitions

    def free_excess(self) -> None:
        partitions = sum(map(len, self._free.values())) + sum(self.loads.values())
        share, left_over = divmod(partitions, len(self.loads))
        for member_id, load in self.loads.items():
            excess = load - share
            if excess > 0 and left_over:
                excess -= 1
                left_over -= 1
            for topic_id in self.topic_ids:
                if excess <= 0:
                    break
                taken = sorted(self._held[topic_id].get(member_id, ()))[-excess:]
                if taken:
                    self._changing(topic_id, member_id).difference_update(taken)
                    self._free[topic_id].update(taken)
                    self.loads[member_id] -= len(taken)
                    excess -= len(taken)

    def give_out(self, topic_id: bytes) -> None:
        subscribers, free = self._subscribers[topic_id], self._free[topic_id]
        if not free:
            return
        if len(subscribers) == 1:  # fast path for a group of one member, which may read 10,000 topics
            self._changing(topic_id, subscribers[0]).update(free)
            self.loads[subscribers[0]] += len(free)
            return
        least = [(self.loads[member_id], member_id) for member_id in subscribers]
        heapq.heapify(least)
        for partition in sorted(free):
            load, member_id = least[0]
            self._changing(topic_id, member_id).add(partition)
            self.loads[member_id] = load + 1
            heapq.heapreplace(least, (load + 1, member_id))

    def balance(self, topic_id: bytes) -> bool:
        """Move partitions of a topic until no move improves the balance; return whether any partition moved."""
        held, loads = self._held[topic_id], self.loads
        subscribers = self._subscribers[topic_id]
        if max(map(loads.__getitem__, held)) - min(map(loads.__getitem__, subscribers)) <= DIFFERENCE_MAX:
            return False
        least = [(loads[member_id], member_id) for member_id in subscribers]
        most = [(-loads[member_id], member_id) for member_id in held]
        heapq.heapify(least)
        heapq.heapify(most)
        moved = False
        while most:
            most_load, giver = most[0]
            if -most_load != loads[giver] or not held[giver]:
                heapq.heappop(most)
                if held[giver]:
                    heapq.heappush(most, (-loads[giver], giver))
                continue
            least_load, taker = least[0]
            if least_load != loads[taker]:
                heapq.heapreplace(least, (loads[taker], taker))
                continue
            if -most_load - least_load <= DIFFERENCE_MAX:
                break
            partition = max(held[giver])
            self._changing(topic_id, giver).remove(partition)
            self._changing(topic_id, taker).add(partition)
            loads[giver] -= 1
            loads[taker] += 1  # now one more than the least, so the taker never becomes a giver
            moved = True
        return moved

    def result(self, members: list[AssignorMember]) -> dict[str, Partitions]:
        assigned: dict[str, dict[bytes, frozenset[int]]] = {member.member_id: {} for member in members}
        for topic_id, held in self._held.items():
            for member_id, partitions in held.items():
                if partitions:
                    assigned[member_id][topic_id] = frozenset(partitions)
        return {**assigned}
