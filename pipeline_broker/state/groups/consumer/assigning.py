"""What members own: the group's epoch, the target assignment, the step of one member towards it.

group epoch        moves when members, subscriptions or topics change
assignment epoch   follows it, at most once in an assignment interval
member epoch       follows that, when the member has given back what it must
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline_broker.state.epochs import next_epoch
from pipeline_broker.state.groups.consumer.assignors.range import assign_range
from pipeline_broker.state.groups.consumer.assignors.subscriptions import Assignor, AssignorMember
from pipeline_broker.state.groups.consumer.assignors.uniform import assign_uniform
from pipeline_broker.state.groups.consumer.member import Member, Partitions
from pipeline_broker.state.groups.consumer.reconciliation import Reconciliation
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.topic_view import metadata_hash, topic_ids
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, Subject, TargetEpoch

__all__ = ["ASSIGNORS", "assignor_name", "bump_epoch", "is_target_due", "reconcile", "refresh_epoch", "update_target"]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def refresh_epoch(step: Step, *, must_bump: bool) -> None:
    """Move to the next epoch if something changed that members say, or topics."""
    group = step.group
    if not must_bump and group.topics_version == step.topics_version:  # of a new group it is -1
        return
    is_new = group.epoch == 0
    group.topics_version = step.topics_version
    found = metadata_hash(step.topics, group.subscribed_topics)
    if must_bump or found != group.metadata_hash or is_new:
        _move(step, found, 2 if is_new and must_bump else 1)


def bump_epoch(step: Step) -> None:
    """Move to the next epoch, because members went."""
    _move(step, metadata_hash(step.topics, step.group.subscribed_topics), 1)


def _move(step: Step, found_hash: int, epochs: int) -> None:
    """As in Kafka a new group is in epoch 1 before anybody subscribes to anything."""
    group = step.group
    step.emit(Subject.GROUP_EPOCH, "", GroupEpoch(next_epoch(group.epoch, epochs), found_hash))
    if group.has_partition_metadata:
        step.emit(Subject.PARTITION_METADATA, "", None)


def assignor_name(step: Step) -> str:
    """The assignor that most members want, or the broker's first."""
    preferred = step.group.preferred_assignor
    return preferred if preferred in step.settings.consumer_assignors else step.settings.consumer_assignors[0]


def is_target_due(step: Step) -> bool:
    """Whether the target assignment is behind the group's epoch, and was not made a moment ago."""
    group = step.group
    if group.epoch <= group.assignment_epoch:
        return False
    return not group.assignment_epoch or (
        step.now_ms >= group.assigned_ms + step.settings.consumer_assignment_interval_ms
    )


def update_target(step: Step) -> None:
    """Make the target assignment of the group's epoch, unless the last one was made a moment ago."""
    group = step.group
    if not is_target_due(step):
        return
    counts: dict[bytes, int] = {}
    ids: dict[frozenset[str], frozenset[bytes]] = {}  # most members subscribe alike
    members = []
    for member in group.members.values():
        names = group.topics_of(member.metadata)
        if names not in ids:
            ids[names] = topic_ids(step.topics, names)
            for topic_id in ids[names]:
                topic = step.topics.by_id(topic_id)
                assert topic is not None, "it was found by its name"
                counts[topic_id] = topic.partitions
        members.append(
            AssignorMember(member.member_id, member.metadata.instance_id, ids[names], group.target_of(member.member_id))
        )
    target = ASSIGNORS[assignor_name(step)](members, counts)
    for member_id, partitions in target.items():
        if group.target.get(member_id) != partitions:
            step.emit(Subject.TARGET, member_id, partitions)
    step.emit(Subject.TARGET_EPOCH, "", TargetEpoch(group.epoch, step.now_ms))


def reconcile(step: Step, member: Member, owned: Partitions | None, *, subscription_changed: bool) -> Member:
    """Take a member one step towards its target; returns it as it is then."""
    group = step.group
    epoch = group.assignment_epoch
    if not subscription_changed and member.current.is_reconciled_to(epoch):
        return member
    current = Reconciliation(
        current=member.current,
        target_epoch=epoch,
        target=group.target_of(member.member_id),
        subscribed=topic_ids(step.topics, group.topics_of(member.metadata)),
        subscription_changed=subscription_changed,
        owned=owned,
        is_taken=_taken_by_others(step, member.member_id),
    ).next()
    if current != member.current:
        step.emit_current(member.member_id, current)
    return group.members[member.member_id]


def _taken_by_others(step: Step, member_id: str) -> Callable[[bytes, int], bool]:
    owner = step.group.owner

    def is_taken(topic_id: bytes, partition: int) -> bool:
        return owner(topic_id, partition) not in {None, member_id}

    return is_taken
