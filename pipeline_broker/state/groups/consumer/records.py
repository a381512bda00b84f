"""Records of consumer groups: types 3 to 8 and 16 of `__consumer_offsets`, in Kafka's layouts.

Lists are sorted, so that equal updates have equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.groups.consumer.member import ClassicMetadata, MemberMetadata, OwnedPartitions, Partitions
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, ResolvedRegex, Subject
from pipeline_broker.state.groups.modern.layouts import UNKNOWN_EPOCH, Layout, Layouts, target_epoch_layout
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState
from pipeline_broker.wire.consumer_protocol import MalformedError, read_subscription
from pipeline_broker.wire.messages.groups.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

__all__ = ["LAYOUTS"]

MemberValue = ConsumerGroupMemberMetadataValue
CurrentValue = ConsumerGroupCurrentMemberAssignmentValue
TargetValue = ConsumerGroupTargetAssignmentMemberValue


def _write_epoch(value: GroupEpoch) -> ConsumerGroupMetadataValue:
    return ConsumerGroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash)


def _read_epoch(read: ConsumerGroupMetadataValue) -> GroupEpoch:
    return GroupEpoch(read.epoch, read.metadata_hash)


def _write_target(value: Partitions) -> TargetValue:
    return TargetValue(
        [TargetValue.TopicPartition(topic_id, sorted(partitions)) for topic_id, partitions in sorted(value.items())]
    )


def _read_target(read: TargetValue) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in read.topic_partitions}


def _write_member(value: MemberMetadata) -> MemberValue:
    classic = value.classic
    return MemberValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=sorted(value.topic_names),
        subscribed_topic_regex=value.topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic_member_metadata=None
        if classic is None
        else MemberValue.ClassicMemberMetadata(
            classic.session_timeout_ms,
            [MemberValue.ClassicProtocol(name, metadata) for name, metadata in classic.protocols],
        ),
    )


def _read_member(read: MemberValue) -> MemberMetadata:
    classic = read.classic_member_metadata
    if classic is not None:
        _check_protocols(classic.supported_protocols)
    return MemberMetadata(
        instance_id=read.instance_id,
        rack_id=read.rack_id,
        client_id=read.client_id,
        client_host=read.client_host,
        topic_names=frozenset(read.subscribed_topic_names),
        topic_regex=read.subscribed_topic_regex or "",
        rebalance_timeout_ms=read.rebalance_timeout_ms,
        server_assignor=read.server_assignor,
        classic=None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms, tuple((each.name, each.metadata) for each in classic.supported_protocols)
        ),
    )


def _check_protocols(protocols: Sequence[MemberValue.ClassicProtocol]) -> None:
    # A classic member with such a subscription cannot have joined. Its assignment is encoded in the version of its
    # subscription, so an unreadable one would fail later requests.
    try:
        read_subscription(protocols[0].metadata if protocols else b"")
    except MalformedError as error:
        raise CorruptStateRecordError(f"subscription of a classic member: {error}") from None


def _write_owned(owned: OwnedPartitions) -> list[CurrentValue.TopicPartitions]:
    written = []
    for topic_id, epochs in sorted(owned.items()):
        partitions = sorted(epochs)
        written.append(CurrentValue.TopicPartitions(topic_id, partitions, [epochs[each] for each in partitions]))
    return written


def _read_owned(read: Iterable[CurrentValue.TopicPartitions]) -> OwnedPartitions:
    owned: dict[bytes, Mapping[int, int]] = {}
    for each in read:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [UNKNOWN_EPOCH] * len(each.partitions)
        owned[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return owned


def _write_current(value: CurrentAssignment) -> CurrentValue:
    return CurrentValue(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_epoch,
        state=value.state,
        assigned_partitions=_write_owned(value.assigned),
        partitions_pending_revocation=_write_owned(value.revoking),
    )


def _read_current(read: CurrentValue) -> CurrentAssignment:
    # A newer broker may have written a state that is unknown here.
    known = read.state in set(MemberState)
    return CurrentAssignment(
        member_epoch=read.member_epoch,
        previous_epoch=read.previous_member_epoch,
        state=MemberState(read.state) if known else MemberState.UNKNOWN,
        assigned=_read_owned(read.assigned_partitions),
        revoking=_read_owned(read.partitions_pending_revocation),
    )


def _write_regex(value: ResolvedRegex) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(
        topics=sorted(value.topics), version=value.version, timestamp=value.timestamp_ms
    )


def _read_regex(read: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    return ResolvedRegex(frozenset(read.topics), read.version, read.timestamp)


LAYOUTS: Layouts = {
    Subject.GROUP_EPOCH: Layout(ConsumerGroupMetadataKey, None, ConsumerGroupMetadataValue, _write_epoch, _read_epoch),
    Subject.PARTITION_METADATA: Layout(
        ConsumerGroupPartitionMetadataKey,
        None,
        ConsumerGroupPartitionMetadataValue,
        lambda _: ConsumerGroupPartitionMetadataValue(),
        lambda _: True,
    ),
    Subject.MEMBER: Layout(ConsumerGroupMemberMetadataKey, "member_id", MemberValue, _write_member, _read_member),
    Subject.TARGET_EPOCH: target_epoch_layout(
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
    ),
    Subject.TARGET: Layout(
        ConsumerGroupTargetAssignmentMemberKey, "member_id", TargetValue, _write_target, _read_target
    ),
    Subject.CURRENT: Layout(
        ConsumerGroupCurrentMemberAssignmentKey, "member_id", CurrentValue, _write_current, _read_current
    ),
    Subject.REGEX: Layout(
        ConsumerGroupRegularExpressionKey,
        "regular_expression",
        ConsumerGroupRegularExpressionValue,
        _write_regex,
        _read_regex,
    ),
}
