"""The current assignment of a member on the way to its target: partitions of topics, or tasks of subtopologies."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeAlias

import attrs

__all__ = [
    "LEAVING_EPOCH",
    "LEAVING_STATIC_EPOCH",
    "NO_ASSIGNMENT",
    "REMOVED",
    "Assigned",
    "CurrentAssignment",
    "MemberState",
    "Owned",
]

Assigned: TypeAlias = Mapping[Any, frozenset[int]]
"""Partitions by topic id, or tasks by role and subtopology."""
Owned: TypeAlias = Mapping[Any, Mapping[int, int]]
"""As `Assigned`; each partition or task has the member epoch in which it was assigned."""

LEAVING_EPOCH = -1
"""Epoch sent by a member that leaves."""
LEAVING_STATIC_EPOCH = -2
"""Epoch sent by a static member that leaves temporarily. It keeps its membership until its session expires."""


class MemberState(IntEnum):
    """States of a member, numbered as in Kafka's records. For a streams group, read "tasks" for "partitions".

    | state | meaning |
    |---|---|
    | STABLE | owns its target assignment |
    | UNREVOKED_PARTITIONS | must revoke partitions, and has not confirmed it yet |
    | UNRELEASED_PARTITIONS | waits for partitions that other members have not revoked yet |
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@attrs.frozen(kw_only=True)
class CurrentAssignment:
    """The epoch and partitions of a member on the way to its target.

    Attributes:
        revoking: partitions that the member must revoke and still owns.
    """

    member_epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = attrs.Factory(dict)
    revoking: Owned = attrs.Factory(dict)

    @property
    def must_revoke(self) -> bool:
        """True if the member must revoke partitions; never for a static member that has left temporarily."""
        return self.state is MemberState.UNREVOKED_PARTITIONS and self.member_epoch != LEAVING_STATIC_EPOCH

    def moved_to(self, member_epoch: int, state: MemberState, assigned: Owned, revoking: Owned) -> CurrentAssignment:
        """Return the next assignment. As in Kafka, `previous_epoch` is set even if the epoch stays the same."""
        return CurrentAssignment(
            member_epoch=member_epoch,
            previous_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch


NO_ASSIGNMENT = CurrentAssignment()
REMOVED = attrs.evolve(NO_ASSIGNMENT, member_epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH)
"""The assignment of a member between the tombstone of its assignment and the tombstone of the member itself."""
