"""Removal of members, and its replacement by a new static member with the same instance id."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import attrs

from pipeline_broker.state.groups.modern.step import ModernStep
from pipeline_broker.state.groups.modern.updates import TargetEpoch

__all__ = ["remove_members", "replace_member"]

Step = TypeVar("Step", bound=ModernStep[Any, Any])


def remove_members(step: Step, members: Collection[Any], bump_epoch: Callable[[Step], None]) -> None:
    """Remove members, and bump the group epoch once for all of them."""
    for member in members:
        _remove(step, member.member_id)
    bump_epoch(step)
    if not step.group.members:
        # As in Kafka, the assignment of an empty group is done, and the next one need not wait for the interval.
        step.emit(step.group.SUBJECTS.target_epoch, "", TargetEpoch(step.group.epoch))


def _remove(step: ModernStep[Any, Any], member_id: str) -> None:
    subjects = step.group.SUBJECTS
    # In Kafka's order: the tombstone of the member itself is last.
    for subject in (subjects.current, subjects.target, subjects.member):
        step.emit(subject, member_id, None)
    step.stop_all(member_id)


def replace_member(step: ModernStep[Any, Any], old: Any, new_id: str) -> Any:
    """Give a static member a new id. It keeps its assignment; its epoch is 0 until it is reconciled."""
    group, subjects = step.group, step.group.SUBJECTS
    target, current = group.target_of(old.member_id), old.current
    _remove(step, old.member_id)
    step.emit(subjects.member, new_id, old.metadata)
    step.emit(subjects.target, new_id, target)
    step.emit(subjects.current, new_id, attrs.evolve(current, member_epoch=0, previous_epoch=0))
    return group.members[new_id]
