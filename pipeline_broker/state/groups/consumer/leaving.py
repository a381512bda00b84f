"""Members that go: because they say so, because they are not heard of, or because they give nothing back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import attrs

from pipeline_broker.state.groups.consumer.assigning import bump_epoch
from pipeline_broker.state.groups.consumer.member import Member
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.updates import Subject

__all__ = ["remove_members", "replace_member", "tombstone_all"]


def remove_members(step: Step, members: Collection[Member]) -> None:
    """Take members out, and move to the next epoch once for all of them."""
    regexes = Counter(member.metadata.topic_regex for member in members)
    for regex, count in regexes.items():
        if regex and step.group.regex_members(regex) == count:
            step.emit(Subject.REGEX, regex, None)
    for member in members:
        _remove(step, member)
    bump_epoch(step)


def _remove(step: Step, member: Member) -> None:
    """In Kafka's order: readers of old need to know last that there was a member."""
    for subject in (Subject.CURRENT, Subject.TARGET, Subject.MEMBER):
        step.emit(subject, member.member_id, None)
    step.stop_all(member.member_id)


def replace_member(step: Step, old: Member, new_id: str) -> Member:
    """Give a static member a new id; it keeps what it owns, and has no epoch until it is told one."""
    group = step.group
    target, current = group.target_of(old.member_id), old.current
    _remove(step, old)
    step.emit(Subject.MEMBER, new_id, old.metadata)
    step.emit(Subject.TARGET, new_id, target)
    step.emit(Subject.CURRENT, new_id, attrs.evolve(current, member_epoch=0, previous_epoch=0))
    return group.members[new_id]


def tombstone_all(step: Step) -> None:
    """Take everything out: the group goes, or becomes another kind."""
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
