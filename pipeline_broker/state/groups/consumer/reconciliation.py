"""Reconciliation of a member whose subscription may have changed."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pipeline_broker.state.groups.modern import reconciliation
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState

__all__ = ["Reconciliation"]


@attrs.frozen(kw_only=True)
class Reconciliation(reconciliation.Reconciliation):
    """The input of a member's next step.

    Attributes:
        subscribed: ids of the topics that the member subscribes to. It gets no partitions of other topics, even if the
            target contains them.
        subscription_changed: this request has changed the subscription.
    """

    subscribed: frozenset[bytes]
    subscription_changed: bool

    def next(self) -> CurrentAssignment:
        found = super().next()
        return self._without_unsubscribed() if found is self.current and self.subscription_changed else found

    def wanted(self, key: bytes) -> frozenset[int]:
        return super().wanted(key) if key in self.subscribed else frozenset()

    def _without_unsubscribed(self) -> CurrentAssignment:
        current = self.current
        assigned = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id in self.subscribed}
        if len(assigned) == len(current.assigned):
            return current
        revoking: dict[bytes, Mapping[int, int]] = dict(current.revoking)
        for topic_id in current.assigned.keys() - assigned.keys():
            revoking[topic_id] = {**revoking.get(topic_id, {}), **current.assigned[topic_id]}
        if self.still_owns(revoking):
            return current.moved_to(current.member_epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
        return current.moved_to(current.member_epoch, current.state, assigned, current.revoking)
