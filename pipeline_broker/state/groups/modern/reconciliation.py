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

__all__ = ["Difference", "Reconciliation"]


@attrs.define
class Difference:
    """The difference between an assignment and its target.

    Attributes:
        assigned: partitions of both, with the member epochs of their assignment.
        revoking: partitions outside the target.
        free: partitions of the target that the member can get now.
        waits: whether others are not free.
    """

    assigned: dict[Any, dict[int, int]] = attrs.Factory(dict)
    revoking: dict[Any, dict[int, int]] = attrs.Factory(dict)
    free: dict[Any, set[int]] = attrs.Factory(dict)
    waits: bool = False


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
        found = self._difference()
        self.convert(found)
        if found.revoking and self.still_owns(found.revoking):
            unrevoked = MemberState.UNREVOKED_PARTITIONS
            return current.moved_to(current.member_epoch, unrevoked, found.assigned, found.revoking)
        for key, partitions in found.free.items():
            found.assigned.setdefault(key, {}).update(dict.fromkeys(partitions, epoch))
        state = MemberState.UNRELEASED_PARTITIONS if found.waits else MemberState.STABLE
        return current.moved_to(epoch, state, found.assigned, {})

    def _difference(self) -> Difference:
        found = Difference()
        for key in self.current.assigned.keys() | self.target.keys():
            wanted = self.wanted(key)
            missing, epochs = wanted, self.current.assigned.get(key)
            if epochs:  # skip the work for a new member: it owns none of its topics, which may be 10,000
                kept = {partition: since for partition, since in epochs.items() if partition in wanted}
                revoked = {partition: since for partition, since in epochs.items() if partition not in wanted}
                missing = wanted - kept.keys()
                for some, into in ((kept, found.assigned), (revoked, found.revoking)):
                    if some:
                        into[key] = some
            takeable = {partition for partition in missing if not self.is_taken(key, partition)}
            found.waits = found.waits or len(takeable) < len(missing)
            if takeable:
                found.free[key] = takeable
        return found

    def convert(self, found: Difference) -> None:
        """Change the difference where the member can keep an assigned part in another form."""
