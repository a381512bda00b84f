"""Online migration between classic and consumer groups (KIP-848).

* Upgrade: the first member of the consumer protocol joins a classic group of consumers. The classic members keep their
  partitions, and JoinGroup, SyncGroup and Heartbeat continue to serve them.
* Downgrade: the last member of the consumer protocol leaves. The others join again, in a classic group.

One write contains the records of both groups, so a crash leaves either the old group or the new one.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.classic.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, GroupState
from pipeline_broker.state.groups.classic.classic_group import Member as ClassicMember
from pipeline_broker.state.groups.classic.messages import MemberProtocol
from pipeline_broker.state.groups.classic.records import group_tombstone
from pipeline_broker.state.groups.consumer.embedded import partitions_by_id, write_assignment
from pipeline_broker.state.groups.consumer.leaving import tombstone_all
from pipeline_broker.state.groups.consumer.member import (
    ClassicMetadata,
    Member,
    MemberMetadata,
    Partitions,
)
from pipeline_broker.state.groups.consumer.step import Step
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, Subject
from pipeline_broker.state.groups.modern.group_error import GroupError
from pipeline_broker.state.groups.modern.member import CurrentAssignment
from pipeline_broker.state.groups.modern.membership import assigned_of
from pipeline_broker.state.groups.modern.updates import TargetEpoch
from pipeline_broker.state.groups.topic_view import TopicView, metadata_hash
from pipeline_broker.wire.consumer_protocol import (
    MalformedError,
    read_assignment,
    read_subscription,
    subscription_version,
)

__all__ = ["can_downgrade", "check_upgrade", "downgrade", "upgrade"]


def check_upgrade(classic: ClassicGroup, config: BrokerConfig) -> None:
    if not _allows("UPGRADE", config):
        reason = "online upgrade is disabled"
    elif classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "the group does not use the consumer embedded protocol"
    elif len(classic.members) > config.group_consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise _refusal(classic, reason)


def _allows(direction: str, config: BrokerConfig) -> bool:
    return config.group_consumer_migration_policy.upper() in {direction, "BIDIRECTIONAL"}


def _refusal(classic: ClassicGroup, reason: str) -> GroupError:
    return GroupError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def upgrade(step: Step, classic: ClassicGroup) -> None:
    """Fill the new group of a step from a classic group.

    Raises:
        GroupError: the consumer protocol of a member is malformed, or a custom assignor is in use. Nothing has changed.
    """
    try:
        members = [_to_member(member, classic, step.topics) for member in classic.members.values()]
    except MalformedError:
        raise _refusal(classic, "the embedded consumer protocol is malformed") from None
    step.replaces = classic
    step.records.append(group_tombstone(classic.group_id))
    # A member with epoch 0 would be a joining one.
    epoch = max(classic.generation_id, 1)
    for member in members:
        step.emit(Subject.MEMBER, member.member_id, member.metadata)
    names = step.group.subscribed_topics
    step.emit(Subject.GROUP_EPOCH, "", GroupEpoch(epoch, metadata_hash(step.topics, names)))
    for member in members:
        step.emit(Subject.TARGET, member.member_id, assigned_of(member.current.assigned))
    # Time 0: the next assignment does not wait for the assignment interval.
    step.emit(Subject.TARGET_EPOCH, "", TargetEpoch(epoch, 0))
    for member in members:
        step.emit(Subject.CURRENT, member.member_id, member.current)
        step.start_session(member)


def _to_member(member: ClassicMember, classic: ClassicGroup, topics: TopicView) -> Member:
    name = classic.protocol_name or member.protocols[0].name
    subscription = read_subscription(member.metadata(name))
    given = read_assignment(member.assignment)
    if given.user_data:
        raise _refusal(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
            " assignor before re-attempting the upgrade",
        )
    epoch = max(classic.generation_id, 1)
    owned = partitions_by_id(topics, given.assigned_partitions)
    return Member(
        member.member_id,
        MemberMetadata(
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMetadata(
                member.session_timeout_ms, tuple((protocol.name, protocol.metadata) for protocol in member.protocols)
            ),
        ),
        CurrentAssignment(
            member_epoch=epoch,
            previous_epoch=epoch,
            assigned={topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in owned.items()},
        ),
    )


def can_downgrade(step: Step, leaving: frozenset[str], *, replaced: bool = False) -> bool:
    """Return whether a group should become a classic group after some members have left.

    At least one member must remain, and all remaining ones must be classic. A member of the consumer protocol must have
    left or been replaced. The settings must allow the downgrade and the size of the group.

    Args:
        leaving: the ids of the members that leave.
        replaced: a static member of the consumer protocol has returned as a classic member.
    """
    group, config = step.group, step.config
    staying = [member for member_id, member in group.members.items() if member_id not in leaving]
    leavers = [group.members[member_id] for member_id in leaving]
    return (
        bool(staying)
        and _can_be_classic(staying)
        and (replaced or any(member.metadata.classic is None for member in leavers))
        and _allows("DOWNGRADE", config)
        and len(staying) <= config.group_max_size
    )


def _can_be_classic(members: Sequence[Member]) -> bool:
    """Return whether all members are classic, share a protocol and have distinct instance ids."""
    # Joins guarantee the last two conditions; replayed records do not.
    protocols = [{name for name, _ in each.metadata.classic.protocols} for each in members if each.metadata.classic]
    instances = [each.metadata.instance_id for each in members if each.metadata.instance_id is not None]
    return (
        len(protocols) == len(members) and bool(set.intersection(*protocols)) and len(set(instances)) == len(instances)
    )


def downgrade(step: Step, leaving: frozenset[str], generation_id: int) -> ClassicGroup:
    """Remove everything from the consumer group of a step, and return the classic group of its remaining members.

    As in Kafka, each member is assigned its full target, including partitions that it does not own yet.
    """
    group = step.group
    classic = ClassicGroup(
        group_id=group.group_id,
        state=GroupState.STABLE,
        state_since_ms=step.now_ms,
        generation_id=generation_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
    )
    for member in group.members.values():
        if member.member_id not in leaving:
            classic.add(_to_classic(member, group.target_of(member.member_id), step.topics))
    classic.protocol_name = classic.select_protocol()
    classic.refresh_topics()
    tombstone_all(step)
    return classic


def _to_classic(member: Member, target: Partitions, topics: TopicView) -> ClassicMember:
    metadata = member.metadata
    assert metadata.classic is not None
    version = subscription_version(metadata.classic.protocols[0][1])
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=metadata.classic.session_timeout_ms,
        protocols=tuple(MemberProtocol(name, data) for name, data in metadata.classic.protocols),
        assignment=write_assignment(topics, target, version),
    )
