"""Removal of a member, and its replacement by a new static member with the same instance id."""

from __future__ import annotations

from typing import Any

import attrs

from pipeline_broker.state.groups.modern.step import ModernStep

__all__ = ["remove_member", "replace_member"]


def remove_member(step: ModernStep[Any, Any], member_id: str) -> None:
    subjects = step.group.SUBJECTS
    # In Kafka's order: the tombstone of the member itself is last.
    for subject in (subjects.current, subjects.target, subjects.member):
        step.emit(subject, member_id, None)
    step.stop_all(member_id)


def replace_member(step: ModernStep[Any, Any], old: Any, new_id: str) -> Any:
    """Give a static member a new id. It keeps its assignment; its epoch is 0 until it is reconciled."""
    group, subjects = step.group, step.group.SUBJECTS
    target, current = group.target_of(old.member_id), old.current
    remove_member(step, old.member_id)
    step.emit(subjects.member, new_id, old.metadata)
    step.emit(subjects.target, new_id, target)
    step.emit(subjects.current, new_id, attrs.evolve(current, member_epoch=0, previous_epoch=0))
    return group.members[new_id]
