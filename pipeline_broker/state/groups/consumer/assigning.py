"""Epochs and assignments of a consumer group, and the reconciliation of one member.

* Group epoch: increases when members, subscriptions or topics change.
* Assignment epoch: follows the group epoch, at most once per assignment interval.
* Member epoch: follows the assignment epoch, after the member has revoked its partitions.
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
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, Subject
from pipeline_broker.state.groups.modern.updates import TargetEpoch
from pipeline_broker.state.groups.topic_view import metadata_hash, topic_ids

__all__ = ["ASSIGNORS", "assignor_name", "bump_epoch", "is_target_due", "reconcile", "refresh_epoch", "update_target"]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def refresh_epoch(step: Step, *, must_bump: bool) -> None:
    """Bump the group epoch if subscriptions or topics have changed.

    Args:
        must_bump: the caller has changed a member or its subscription.
    """
    group = step.group
    if not must_bump and group.topics_version == step.topics_version:  # -1 in a new group
        return
    is_new = group.epoch == 0
    group.topics_version = step.topics_version
    found = metadata_hash(step.topics, group.subscribed_topics)
    if must_bump or found != group.metadata_hash or is_new:
        _move(step, found, 2 if is_new and must_bump else 1)


def bump_epoch(step: Step) -> None:
    _move(step, metadata_hash(step.topics, step.group.subscribed_topics), 1)


def _move(step: Step, found_hash: int, epochs: int) -> None:
    # As in Kafka, a new group has epoch 1 before its first subscription. So the first join bumps the epoch twice.
    group = step.group
    step.emit(Subject.GROUP_EPOCH, "", GroupEpoch(next_epoch(group.epoch, epochs), found_hash))
    if group.has_partition_metadata:
        step.emit(Subject.PARTITION_METADATA, "", None)


def assignor_name(step: Step) -> str:
    """Return the assignor that most members prefer, or the broker's default."""
    preferred = step.group.preferred_assignor
    return preferred if preferred in step.config.consumer_assignors else step.config.consumer_assignors[0]


def is_target_due(step: Step) -> bool:
    """Return whether a new target assignment is needed and the assignment interval has passed."""
    group = step.group
    if group.epoch <= group.assignment_epoch:
        return False
    return not group.assignment_epoch or (step.now_ms >= group.assigned_ms + step.settings.assignment_interval_ms)


def update_target(step: Step) -> None:
    """Compute the target assignment of the group epoch if `is_target_due`."""
    group = step.group
    if not is_target_due(step):
        return
    counts: dict[bytes, int] = {}
    ids: dict[frozenset[str], frozenset[bytes]] = {}  # a cache: most members have the same subscription
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
    """Move a member one step towards its target assignment, and return its new state.

    Args:
        owned: partitions that the member reports to own; None if the request does not say.
    """
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
