"""Descriptions of consumer groups for administrators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline_broker.state.groups.consumer.assigning import assignor_name
from pipeline_broker.state.groups.consumer.member import Member
from pipeline_broker.state.groups.consumer.messages import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
    NamedPartitions,
)
from pipeline_broker.state.groups.consumer.step import Step

__all__ = ["assignment_of", "describe_group"]


def describe_group(step: Step) -> DescribedConsumerGroup:
    group = step.group
    return DescribedConsumerGroup(
        group_id=group.group_id,
        state=group.state_name,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=assignor_name(step),
        members=tuple(_member(step, member) for member in group.members.values()),
    )


def _member(step: Step, member: Member) -> DescribedConsumerMember:
    metadata = member.metadata
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.current.member_epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topic_names=tuple(sorted(metadata.topic_names)),
        topic_regex=metadata.topic_regex,
        assignment=assignment_of(step, member),
        target=_named(step, step.group.target_of(member.member_id)),
        is_classic=metadata.classic is not None,
    )


def assignment_of(step: Step, member: Member) -> tuple[NamedPartitions, ...]:
    return _named(step, _owned(member))


def _owned(member: Member) -> dict[bytes, set[int]]:
    """Return assigned partitions, and those that the member must revoke but still owns."""
    owned: dict[bytes, set[int]] = {}
    for part in (member.current.assigned, member.current.revoking):
        for topic_id, epochs in part.items():
            owned.setdefault(topic_id, set()).update(epochs)
    return owned


def _named(step: Step, partitions: Mapping[bytes, Iterable[int]]) -> tuple[NamedPartitions, ...]:
    found = []
    for topic_id, numbers in partitions.items():
        topic = step.topics.by_id(topic_id)
        if topic is not None:
            found.append((topic_id, topic.name, tuple(sorted(numbers))))
    return tuple(sorted(found, key=lambda each: each[1]))
