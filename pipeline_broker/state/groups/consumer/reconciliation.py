"""Reconciliation of one member with its target assignment, as a pure function.

    Stable                next step if the target epoch is newer; else no change
    UnrevokedPartitions   no change while the member owns partitions that it must revoke; else next step
    UnreleasedPartitions  next step

In the next step, the member first revokes partitions outside its target and keeps its epoch. Then it moves to the
target epoch, with all partitions of its target that no other member owns. It waits for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from pipeline_broker.state.groups.consumer.member import (
    CurrentAssignment,
    MemberState,
    OwnedPartitions,
    Partitions,
)

__all__ = ["Reconciliation"]


@attrs.frozen(kw_only=True)
class Reconciliation:
    """The input of a member's next step.

    Attributes:
        target: the target assignment of `target_epoch`.
        subscribed: ids of the topics that the member subscribes to. It gets no partitions of other topics, even if the
            target contains them.
        subscription_changed: this request has changed the subscription.
        owned: partitions that the member reports to own; None if the request does not say.
        is_taken: returns whether another member owns a partition.
    """

    current: CurrentAssignment
    target_epoch: int
    target: Partitions
    subscribed: frozenset[bytes]
    subscription_changed: bool
    owned: Partitions | None
    is_taken: Callable[[bytes, int], bool]

    def next(self) -> CurrentAssignment:
        """Return the next assignment, or the current one if nothing changes."""
        current = self.current
        if current.state is MemberState.STABLE and current.member_epoch == self.target_epoch:
            return self._without_unsubscribed() if self.subscription_changed else current
        if current.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(current.revoking):
            return self._without_unsubscribed() if self.subscription_changed else current
        return self._towards_target()

    def _still_owns(self, revoking: OwnedPartitions) -> bool:
        if self.owned is None:
            # A request without partitions confirms no revocation.
            return True
        return any(not partitions.isdisjoint(revoking.get(topic_id, ())) for topic_id, partitions in self.owned.items())

    def _without_unsubscribed(self) -> CurrentAssignment:
        current = self.current
        assigned = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id in self.subscribed}
        if len(assigned) == len(current.assigned):
            return current
        revoking: dict[bytes, Mapping[int, int]] = dict(current.revoking)
        for topic_id in current.assigned.keys() - assigned.keys():
            revoking[topic_id] = {**revoking.get(topic_id, {}), **current.assigned[topic_id]}
        if self._still_owns(revoking):
            return current.moved_to(current.member_epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
        return current.moved_to(current.member_epoch, current.state, assigned, current.revoking)

    def _towards_target(self) -> CurrentAssignment:
        current, epoch = self.current, self.target_epoch
        assigned: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        free: dict[bytes, set[int]] = {}
        waits = False
        for topic_id in current.assigned.keys() | self.target.keys():
            wanted = self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()
            missing, epochs = wanted, current.assigned.get(topic_id)
            if epochs:  # skip the work for a new member: it owns none of its topics, which may be 10,000
                kept = {partition: since for partition, since in epochs.items() if partition in wanted}
                revoked = {partition: since for partition, since in epochs.items() if partition not in wanted}
                missing = wanted - kept.keys()
                for found, into in ((kept, assigned), (revoked, revoking)):
                    if found:
                        into[topic_id] = found
            takeable = {partition for partition in missing if not self.is_taken(topic_id, partition)}
            waits = waits or len(takeable) < len(missing)
            if takeable:
                free[topic_id] = takeable
        if revoking and self._still_owns(revoking):
            return current.moved_to(current.member_epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
        for topic_id, partitions in free.items():
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, epoch))
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return current.moved_to(epoch, state, assigned, {})
