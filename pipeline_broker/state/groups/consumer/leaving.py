"""Removal of members: they leave, their session expires, or they do not revoke partitions in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import attrs

from pipeline_broker.state.groups.consumer.assigning import bump_epoch
from pipeline_broker.state.groups.consumer.member import Member
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.updates import Subject, TargetEpoch

__all__ = ["remove_members", "replace_member", "tombstone_all"]


def remove_members(step: Step, members: Collection[Member]) -> None:
    """Remove members, and bump the group epoch once for all of them."""
    regexes = Counter(member.metadata.topic_regex for member in members)
    for regex, count in regexes.items():
        if regex and step.group.regex_members(regex) == count:
            step.emit(Subject.REGEX, regex, None)
    for member in members:
        _remove(step, member)
    bump_epoch(step)
    if not step.group.members:
        # As in Kafka, the assignment of an empty group is done, and the next one need not wait for the interval.
        step.emit(Subject.TARGET_EPOCH, "", TargetEpoch(step.group.epoch, 0))


def _remove(step: Step, member: Member) -> None:
    # In Kafka's order: the tombstone of the member itself is last.
    for subject in (Subject.CURRENT, Subject.TARGET, Subject.MEMBER):
        step.emit(subject, member.member_id, None)
    step.stop_all(member.member_id)


def replace_member(step: Step, old: Member, new_id: str) -> Member:
    """Give a static member a new id. It keeps its assignment; its epoch is 0 until it is reconciled."""
    group = step.group
    target, current = group.target_of(old.member_id), old.current
    _remove(step, old)
    step.emit(Subject.MEMBER, new_id, old.metadata)
    step.emit(Subject.TARGET, new_id, target)
    step.emit(Subject.CURRENT, new_id, attrs.evolve(current, member_epoch=0, previous_epoch=0))
    return group.members[new_id]


def tombstone_all(step: Step) -> None:
    """Remove the whole group: it is deleted, or converted to another kind."""
    group = step.group
    for subject, names in (
        (Subject.CURRENT, list(group.members)),
        (Subject.TARGET, list(group.target)),
        (Subject.TARGET_EPOCH, [""]),
        (Subject.REGEX, list(group.regexes)),
    ):
        for name in names:
            step.emit(subject, name, None)
    for member_id in list(group.members):
        step.emit(Subject.MEMBER, member_id, None)
        step.stop_all(member_id)
    if group.has_partition_metadata:
        step.emit(Subject.PARTITION_METADATA, "", None)
    step.emit(Subject.GROUP_EPOCH, "", None)
