"""Reconciliation of a member's tasks, whose roles can change without loss of their state.

* An active task becomes a standby at once, while the member still has to confirm the revocation of the active one.
* A standby becomes a warm-up at once, or the other way round, without revocation.
* A standby or warm-up that becomes active stays until the active task is free.

Counterpart in Kafka: `CurrentAssignmentBuilder`.
"""

from __future__ import annotations

import attrs

from pipeline_broker.state.groups.modern.layouts import UNKNOWN_EPOCH
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState
from pipeline_broker.state.groups.modern.reconciliation import Difference, Reconciliation
from pipeline_broker.state.groups.streams.roles import OwnedTasks, Role, TaskKey

__all__ = ["TaskReconciliation"]


class TaskReconciliation(Reconciliation):
    def next(self) -> CurrentAssignment:
        found = super().next()
        was_revoking = self.current.state is MemberState.UNREVOKED_PARTITIONS
        if found is not self.current and was_revoking and found.state is MemberState.UNREVOKED_PARTITIONS:
            # As in Kafka, a confirmed revocation moves the member to its next epoch even if it must revoke more.
            found = attrs.evolve(found, member_epoch=found.member_epoch + 1)
        return attrs.evolve(found, assigned=_active_epochs(found.assigned), revoking=_active_epochs(found.revoking))

    def convert(self, found: Difference) -> None:
        has = self.current.assigned
        for key in has:
            if key.role is Role.ACTIVE:
                self._keep_as(TaskKey(Role.STANDBY, key.subtopology_id), key, found)
        for before, after in ((Role.STANDBY, Role.WARMUP), (Role.WARMUP, Role.STANDBY)):
            for key in has:
                if key.role is before:
                    kept = self._keep_as(TaskKey(after, key.subtopology_id), key, found)
                    _discard(found.revoking, key, kept)
        promoted = {key: self._promoted(key) for key in has if key.role is not Role.ACTIVE}
        for key, tasks in promoted.items():
            _discard(found.revoking, key, tasks)
        must_revoke = bool(found.revoking) and self.still_owns(found.revoking)
        for key, tasks in promoted.items():
            granted = set() if must_revoke else found.free.get(TaskKey(Role.ACTIVE, key.subtopology_id), set())
            waiting = tasks - granted
            if waiting:
                found.assigned.setdefault(key, {}).update(dict.fromkeys(waiting, UNKNOWN_EPOCH))

    def _promoted(self, key: TaskKey) -> set[int]:
        return set(self.wanted(TaskKey(Role.ACTIVE, key.subtopology_id))) & self.current.assigned[key].keys()

    def _keep_as(self, after: TaskKey, before: TaskKey, found: Difference) -> set[int]:
        """Assign the free tasks of one role that the member has in another role; return them."""
        free = found.free.get(after, set())
        kept = free & self.current.assigned[before].keys()
        if kept:
            found.assigned.setdefault(after, {}).update(dict.fromkeys(kept, UNKNOWN_EPOCH))
            free -= kept
            if not free:
                del found.free[after]
        return kept


def _discard(tasks: dict[TaskKey, dict[int, int]], key: TaskKey, numbers: set[int]) -> None:
    left = {number: since for number, since in tasks.get(key, {}).items() if number not in numbers}
    if left:
        tasks[key] = left
    else:
        tasks.pop(key, None)


def _active_epochs(owned: OwnedTasks) -> OwnedTasks:
    # Records have the epochs of active tasks only, and a replayed group must equal the one before.
    return {
        key: epochs if key.role is Role.ACTIVE else dict.fromkeys(epochs, UNKNOWN_EPOCH)
        for key, epochs in owned.items()
    }
