"""Removal of a streams group."""

from __future__ import annotations

from pipeline_broker.state.groups.modern.step import TimerKind
from pipeline_broker.state.groups.streams.step import Step
from pipeline_broker.state.groups.streams.updates import Subject

__all__ = ["tombstone_all"]


def tombstone_all(step: Step) -> None:
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
