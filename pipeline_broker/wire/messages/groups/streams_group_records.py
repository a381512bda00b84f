"""Records of streams groups (KIP-1071) in `__consumer_offsets`."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int16, int32, int64, optional_struct, string, uint16


@attrs.define
class StreamsGroupMetadataKey:
    SCHEMA = Schema(key=17, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class StreamsGroupMetadataValue:
    SCHEMA = Schema(key=17, versions="0", flexible="0+")

    @attrs.define
    class LastAssignmentConfig:
        key: str = string("0+")
        value: str = string("0+")

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")
    validated_topology_epoch: int = int32("0+", default=-1, tag=0)
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = array(
        "LastAssignmentConfig", "0+", nullable="0+", default=None, tag=1
    )
    stored_description_topology_epoch: int = int32("0+", default=-1, tag=2)
    failed_description_topology_epoch: int = int32("0+", default=-1, tag=3)


@attrs.define
class StreamsGroupMemberMetadataKey:
    SCHEMA = Schema(key=19, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.frozen
class StreamsGroupMemberMetadataEndpoint:
    host: str = string("0+")
    port: int = uint16("0+")


@attrs.define
class StreamsGroupMemberMetadataValue:
    SCHEMA = Schema(key=19, versions="0", flexible="0+")
    Endpoint = StreamsGroupMemberMetadataEndpoint

    @attrs.define
    class KeyValue:
        key: str = string("0+")
        value: str = string("0+")

    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology_epoch: int = int32("0+")
    process_id: str = string("0+")
    user_endpoint: StreamsGroupMemberMetadataEndpoint | None = optional_struct(StreamsGroupMemberMetadataEndpoint, "0+")
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = array("KeyValue", "0+")


@attrs.define
class StreamsGroupTargetAssignmentMetadataKey:
    SCHEMA = Schema(key=20, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class StreamsGroupTargetAssignmentMetadataValue:
    SCHEMA = Schema(key=20, versions="0", flexible="0+")

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


@attrs.define
class StreamsGroupTargetAssignmentMemberKey:
    SCHEMA = Schema(key=21, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class StreamsGroupTargetAssignmentMemberValue:
    SCHEMA = Schema(key=21, versions="0", flexible="0+")

    @attrs.define
    class TaskIds:
        subtopology_id: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds", "0+")
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds", "0+")
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds", "0+")


@attrs.define
class StreamsGroupCurrentMemberAssignmentKey:
    SCHEMA = Schema(key=22, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class StreamsGroupCurrentMemberAssignmentValue:
    SCHEMA = Schema(key=22, versions="0", flexible="0+")

    @attrs.define
    class TaskIds:
        subtopology_id: str = string("0+")
        partitions: list[int] = array("int32", "0+")
        assignment_epochs: list[int] | None = array("int32", "0+", nullable="0+", default=None, tag=0)

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds", "0+")
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds", "0+")
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds", "0+")
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds", "0+")
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds", "0+")
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds", "0+")


@attrs.define
class StreamsGroupTopologyKey:
    SCHEMA = Schema(key=23, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class StreamsGroupTopologyValue:
    SCHEMA = Schema(key=23, versions="0", flexible="0+")

    @attrs.define
    class Subtopology:
        subtopology_id: str = string("0+")
        source_topics: list[str] = array("string", "0+")
        source_topic_regex: list[str] = array("string", "0+")
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = array("TopicInfo", "0+")
        repartition_sink_topics: list[str] = array("string", "0+")
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = array("TopicInfo", "0+")
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = array("CopartitionGroup", "0+")

    @attrs.define
    class CopartitionGroup:
        source_topics: list[int] = array("int16", "0+")
        source_topic_regex: list[int] = array("int16", "0+")
        repartition_source_topics: list[int] = array("int16", "0+")

    @attrs.define
    class TopicConfig:
        key: str = string("0+")
        value: str = string("0+")

    @attrs.define
    class TopicInfo:
        name: str = string("0+")
        partitions: int = int32("0+")
        replication_factor: int = int16("0+")
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = array("TopicConfig", "0+")

    epoch: int = int32("0+")
    subtopologies: list[StreamsGroupTopologyValue.Subtopology] = array("Subtopology", "0+")
