"""Removal of members: they leave, their session expires, or they do not revoke tasks in time."""

from __future__ import annotations

from collections.abc import Collection

from pipeline_broker.state.groups.modern.removal import remove_member
from pipeline_broker.state.groups.modern.step import TimerKind
from pipeline_broker.state.groups.streams.assigning import bump_epoch
from pipeline_broker.state.groups.streams.member import Member
from pipeline_broker.state.groups.streams.step import Step
from pipeline_broker.state.groups.streams.updates import Subject

__all__ = ["remove_members", "tombstone_all"]


def remove_members(step: Step, members: Collection[Member]) -> None:
    """Remove members, and bump the group epoch once for all of them."""
    for member in members:
        remove_member(step, member.member_id)
    bump_epoch(step)


def tombstone_all(step: Step) -> None:
    """Remove the whole group: it is deleted, or a classic group replaces it."""
    group = step.group
    for subject, names in (
        (Subject.CURRENT, list(group.members)),
        (Subject.TARGET, list(group.target)),
        (Subject.TARGET_EPOCH, [""]),
        (Subject.MEMBER, list(group.members)),
        (Subject.GROUP_EPOCH, [""]),
        (Subject.TOPOLOGY, [""]),
    ):
        for name in names:
            step.emit(subject, name, None)
    step.stop(TimerKind.INITIAL, "")
