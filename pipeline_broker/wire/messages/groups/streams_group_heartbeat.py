"""StreamsGroupHeartbeat (KIP-1071): join, stay in or leave a streams group. The response contains the tasks."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    optional_struct,
    string,
    struct,
    uint16,
)


@attrs.frozen
class StreamsGroupHeartbeatEndpoint:
    host: str = string("0+")
    port: int = uint16("0+")


@attrs.frozen
class StreamsGroupHeartbeatTopology:
    epoch: int = int32("0+")
    subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = array("Subtopology", "0+")


@attrs.define
class StreamsGroupHeartbeatRequest:
    SCHEMA = schema_of(ApiKey.STREAMS_GROUP_HEARTBEAT)
    Endpoint = StreamsGroupHeartbeatEndpoint
    Topology = StreamsGroupHeartbeatTopology

    @attrs.define
    class Subtopology:
        subtopology_id: str = string("0+")
        source_topics: list[str] = array("string", "0+")
        source_topic_regex: list[str] = array("string", "0+")
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = array("TopicInfo", "0+")
        repartition_sink_topics: list[str] = array("string", "0+")
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = array("TopicInfo", "0+")
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = array("CopartitionGroup", "0+")

    @attrs.define
    class CopartitionGroup:
        source_topics: list[int] = array("int16", "0+")
        source_topic_regex: list[int] = array("int16", "0+")
        repartition_source_topics: list[int] = array("int16", "0+")

    @attrs.define
    class KeyValue:
        key: str = string("0+")
        value: str = string("0+")

    @attrs.define
    class TopicInfo:
        name: str = string("0+")
        partitions: int = int32("0+")
        replication_factor: int = int16("0+")
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = array("KeyValue", "0+")

    @attrs.define
    class TaskOffset:
        subtopology_id: str = string("0+")
        partition: int = int32("0+")
        offset: int = int64("0+")

    @attrs.define
    class TaskIds:
        subtopology_id: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    endpoint_information_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology: StreamsGroupHeartbeatTopology | None = optional_struct(StreamsGroupHeartbeatTopology, "0+")
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = array(
        "TaskIds", "0+", nullable="0+", default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = array(
        "TaskIds", "0+", nullable="0+", default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = array(
        "TaskIds", "0+", nullable="0+", default=None
    )
    process_id: str | None = string("0+", nullable="0+", default=None)
    user_endpoint: StreamsGroupHeartbeatEndpoint | None = optional_struct(StreamsGroupHeartbeatEndpoint, "0+")
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = array(
        "KeyValue", "0+", nullable="0+", default=None
    )
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = array(
        "TaskOffset", "0+", nullable="0+", default=None
    )
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = array(
        "TaskOffset", "0+", nullable="0+", default=None
    )
    shutdown_application: bool = boolean("0+")


@attrs.define
class StreamsGroupHeartbeatResponse:
    SCHEMA = schema_of(ApiKey.STREAMS_GROUP_HEARTBEAT)
    Endpoint = StreamsGroupHeartbeatEndpoint

    @attrs.define
    class Status:
        status_code: int = int8("0+")
        status_detail: str = string("0+")

    @attrs.define
    class TopicPartition:
        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    @attrs.define
    class TaskIds:
        subtopology_id: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    @attrs.define
    class EndpointToPartitions:
        user_endpoint: StreamsGroupHeartbeatEndpoint = struct(StreamsGroupHeartbeatEndpoint, "0+")
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = array("TopicPartition", "0+")
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = array("TopicPartition", "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32("0+")
    acceptable_recovery_lag: int = int64("1+", default=-1, ignorable=True)
    status: list[StreamsGroupHeartbeatResponse.Status] | None = array("Status", "0+", nullable="0+")
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = array(
        "TaskIds", "0+", nullable="0+", default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = array(
        "TaskIds", "0+", nullable="0+", default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = array(
        "TaskIds", "0+", nullable="0+", default=None
    )
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32("0+")
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = array(
        "EndpointToPartitions", "0+", nullable="0+", default=None
    )
