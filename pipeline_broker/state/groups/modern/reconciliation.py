"""Reconciliation of one member with its target assignment, as a pure function.

    Stable                next step if the target epoch is newer; else no change
    UnrevokedPartitions   no change while the member owns partitions that it must revoke; else next step
    UnreleasedPartitions  next step

In the next step, the member first revokes partitions outside its target and keeps its epoch. Then it moves to the
target epoch, with all partitions of its target that are free. It waits for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pipeline_broker.state.groups.modern.member import Assigned, CurrentAssignment, MemberState, Owned

__all__ = ["Reconciliation"]


@attrs.frozen(kw_only=True)
class Reconciliation:
    """The input of a member's next step.

    Attributes:
        target: the target assignment of `target_epoch`.
        owned: partitions that the member reports to own; None if the request does not say.
        is_taken: returns whether a partition is not free, by its key in `target` and its number.
    """

    current: CurrentAssignment
    target_epoch: int
    target: Assigned
    owned: Assigned | None
    is_taken: Callable[[Any, int], bool]

    def next(self) -> CurrentAssignment:
        """Return the next assignment, or the current one if nothing changes."""
        current = self.current
        if current.is_reconciled_to(self.target_epoch):
            return current
        if current.state is MemberState.UNREVOKED_PARTITIONS and self.still_owns(current.revoking):
            return current
        return self._towards_target()

    def wanted(self, key: Any) -> frozenset[int]:
        return self.target.get(key, frozenset())

    def still_owns(self, revoking: Owned) -> bool:
        if self.owned is None:
            # A request without partitions confirms no revocation.
            return True
        return any(not partitions.isdisjoint(revoking.get(key, ())) for key, partitions in self.owned.items())

    def _towards_target(self) -> CurrentAssignment:
        current, epoch = self.current, self.target_epoch
        assigned: dict[Any, dict[int, int]] = {}
        revoking: dict[Any, dict[int, int]] = {}
        free: dict[Any, set[int]] = {}
        waits = False
        for key in current.assigned.keys() | self.target.keys():
            wanted = self.wanted(key)
            missing, epochs = wanted, current.assigned.get(key)
            if epochs:  # skip the work for a new member: it owns none of its topics, which may be 10,000
                kept = {partition: since for partition, since in epochs.items() if partition in wanted}
                revoked = {partition: since for partition, since in epochs.items() if partition not in wanted}
                missing = wanted - kept.keys()
                for found, into in ((kept, assigned), (revoked, revoking)):
                    if found:
                        into[key] = found
            takeable = {partition for partition in missing if not self.is_taken(key, partition)}
            waits = waits or len(takeable) < len(missing)
            if takeable:
                free[key] = takeable
        if revoking and self.still_owns(revoking):
            return current.moved_to(current.member_epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
        for key, partitions in free.items():
            assigned.setdefault(key, {}).update(dict.fromkeys(partitions, epoch))
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return current.moved_to(epoch, state, assigned, {})
