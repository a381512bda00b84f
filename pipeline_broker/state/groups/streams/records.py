"""Records of streams groups: types 17 and 19 to 23 of `__consumer_offsets`, in Kafka's layouts.

Lists are sorted, so that equal updates have equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline_broker.state.groups.modern.layouts import UNKNOWN_EPOCH, Layout, Layouts, target_epoch_layout
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState
from pipeline_broker.state.groups.streams.member import MemberMetadata
from pipeline_broker.state.groups.streams.roles import AssignedTasks, OwnedTasks, Role, TaskKey
from pipeline_broker.state.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from pipeline_broker.state.groups.streams.updates import GroupEpoch, Subject
from pipeline_broker.wire.messages.groups.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

__all__ = ["LAYOUTS", "topology_value"]

EpochValue = StreamsGroupMetadataValue
MemberValue = StreamsGroupMemberMetadataValue
CurrentValue = StreamsGroupCurrentMemberAssignmentValue
TargetValue = StreamsGroupTargetAssignmentMemberValue
TopologyValue = StreamsGroupTopologyValue


def _write_epoch(value: GroupEpoch) -> EpochValue:
    configs = sorted(value.assignment_configs.items())
    return EpochValue(
        epoch=value.epoch,
        metadata_hash=value.metadata_hash,
        validated_topology_epoch=value.validated_topology_epoch,
        last_assignment_configs=[EpochValue.LastAssignmentConfig(*pair) for pair in configs],
        stored_description_topology_epoch=value.stored_description_epoch,
        failed_description_topology_epoch=value.failed_description_epoch,
    )


def _read_epoch(read: EpochValue) -> GroupEpoch:
    return GroupEpoch(
        epoch=read.epoch,
        metadata_hash=read.metadata_hash,
        validated_topology_epoch=read.validated_topology_epoch,
        assignment_configs={pair.key: pair.value for pair in read.last_assignment_configs or ()},
        stored_description_epoch=read.stored_description_topology_epoch,
        failed_description_epoch=read.failed_description_topology_epoch,
    )


def _write_member(value: MemberMetadata) -> MemberValue:
    return MemberValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if value.endpoint is None else MemberValue.Endpoint(*value.endpoint),
        client_tags=[MemberValue.KeyValue(*pair) for pair in sorted(value.client_tags.items())],
    )


def _read_member(read: MemberValue) -> MemberMetadata:
    endpoint = read.user_endpoint
    return MemberMetadata(
        instance_id=read.instance_id,
        rack_id=read.rack_id,
        client_id=read.client_id,
        client_host=read.client_host,
        rebalance_timeout_ms=read.rebalance_timeout_ms,
        topology_epoch=read.topology_epoch,
        process_id=read.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags={pair.key: pair.value for pair in read.client_tags},
    )


def _write_target(value: AssignedTasks) -> TargetValue:
    by_role: dict[Role, list[TargetValue.TaskIds]] = {role: [] for role in Role}
    for key, tasks in sorted(value.items()):
        by_role[key.role].append(TargetValue.TaskIds(key.subtopology_id, sorted(tasks)))
    return TargetValue(*by_role.values())


def _read_target(read: TargetValue) -> AssignedTasks:
    return {
        TaskKey(role, each.subtopology_id): frozenset(each.partitions)
        for role, tasks in zip(Role, (read.active_tasks, read.standby_tasks, read.warmup_tasks), strict=True)
        for each in tasks
    }


def _write_owned(owned: OwnedTasks) -> Iterable[list[CurrentValue.TaskIds]]:
    by_role: dict[Role, list[CurrentValue.TaskIds]] = {role: [] for role in Role}
    for key, epochs in sorted(owned.items()):
        tasks = sorted(epochs)
        since = [epochs[each] for each in tasks] if key.role is Role.ACTIVE else None
        by_role[key.role].append(CurrentValue.TaskIds(key.subtopology_id, tasks, since))
    return by_role.values()


def _read_owned(*read: Iterable[CurrentValue.TaskIds]) -> OwnedTasks:
    owned: dict[TaskKey, Mapping[int, int]] = {}
    for role, tasks in zip(Role, read, strict=True):
        for each in tasks:
            epochs = each.assignment_epochs
            if role is not Role.ACTIVE or epochs is None or len(epochs) != len(each.partitions):
                epochs = [UNKNOWN_EPOCH] * len(each.partitions)
            owned[TaskKey(role, each.subtopology_id)] = dict(zip(each.partitions, epochs, strict=True))
    return owned


def _write_current(value: CurrentAssignment) -> CurrentValue:
    return CurrentValue(
        value.member_epoch,
        value.previous_epoch,
        value.state,
        *_write_owned(value.assigned),
        *_write_owned(value.revoking),
    )


def _read_current(read: CurrentValue) -> CurrentAssignment:
    # A newer broker may have written a state that is unknown here.
    known = read.state in set(MemberState)
    return CurrentAssignment(
        member_epoch=read.member_epoch,
        previous_epoch=read.previous_member_epoch,
        state=MemberState(read.state) if known else MemberState.UNKNOWN,
        assigned=_read_owned(read.active_tasks, read.standby_tasks, read.warmup_tasks),
        revoking=_read_owned(
            read.active_tasks_pending_revocation,
            read.standby_tasks_pending_revocation,
            read.warmup_tasks_pending_revocation,
        ),
    )


def _write_topology(value: Topology) -> TopologyValue:
    return TopologyValue(value.epoch, [_write_subtopology(part) for part in value.subtopologies])


def _write_subtopology(part: Subtopology) -> TopologyValue.Subtopology:
    return TopologyValue.Subtopology(
        subtopology_id=part.id,
        source_topics=list(part.source_topics),
        source_topic_regex=list(part.source_topic_regex),
        state_changelog_topics=_write_topics(part.state_changelog_topics),
        repartition_sink_topics=list(part.repartition_sink_topics),
        repartition_source_topics=_write_topics(part.repartition_source_topics),
        copartition_groups=[TopologyValue.CopartitionGroup(*map(list, group)) for group in part.copartition_groups],
    )


def _write_topics(topics: Iterable[TopicInfo]) -> list[TopologyValue.TopicInfo]:
    return [
        TopologyValue.TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            [TopologyValue.TopicConfig(*pair) for pair in topic.configs],
        )
        for topic in topics
    ]


def topology_value(read: Any) -> Topology:
    return Topology(read.epoch, tuple(_read_subtopology(part) for part in read.subtopologies))


def _read_subtopology(part: Any) -> Subtopology:
    return Subtopology(
        id=part.subtopology_id,
        source_topics=tuple(part.source_topics),
        source_topic_regex=tuple(part.source_topic_regex),
        repartition_sink_topics=tuple(part.repartition_sink_topics),
        repartition_source_topics=_read_topics(part.repartition_source_topics),
        state_changelog_topics=_read_topics(part.state_changelog_topics),
        copartition_groups=tuple(
            CopartitionGroup(
                tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
            )
            for group in part.copartition_groups
        ),
    )


def _read_topics(topics: Iterable[Any]) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple((pair.key, pair.value) for pair in topic.topic_configs),
        )
        for topic in topics
    )


LAYOUTS: Layouts = {
    Subject.GROUP_EPOCH: Layout(StreamsGroupMetadataKey, None, EpochValue, _write_epoch, _read_epoch),
    Subject.MEMBER: Layout(StreamsGroupMemberMetadataKey, "member_id", MemberValue, _write_member, _read_member),
    Subject.TARGET_EPOCH: target_epoch_layout(
        StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue
    ),
    Subject.TARGET: Layout(
        StreamsGroupTargetAssignmentMemberKey, "member_id", TargetValue, _write_target, _read_target
    ),
    Subject.CURRENT: Layout(
        StreamsGroupCurrentMemberAssignmentKey, "member_id", CurrentValue, _write_current, _read_current
    ),
    Subject.TOPOLOGY: Layout(StreamsGroupTopologyKey, None, TopologyValue, _write_topology, topology_value),
}
