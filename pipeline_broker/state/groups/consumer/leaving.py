"""Removal of members: they leave, their session expires, or they do not revoke partitions in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pipeline_broker.state.groups.consumer.assigning import bump_epoch
from pipeline_broker.state.groups.consumer.member import Member
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.updates import Subject
from pipeline_broker.state.groups.modern import removal

__all__ = ["remove_members", "tombstone_all"]


def remove_members(step: Step, members: Collection[Member]) -> None:
    regexes = Counter(member.metadata.topic_regex for member in members)
    for regex, count in regexes.items():
        if regex and step.group.regex_members(regex) == count:
            step.emit(Subject.REGEX, regex, None)
    removal.remove_members(step, members, bump_epoch)


def tombstone_all(step: Step) -> None:
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
