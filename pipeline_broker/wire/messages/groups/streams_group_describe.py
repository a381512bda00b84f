"""StreamsGroupDescribe (KIP-1071): describe streams groups with their topologies, members and tasks."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import (
    INT32_MIN,
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


@attrs.define
class StreamsGroupDescribeRequest:
    SCHEMA = schema_of(ApiKey.STREAMS_GROUP_DESCRIBE)

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")
    include_topology_description: bool = boolean("1+")


@attrs.frozen
class StreamsGroupDescribeTopology:
    epoch: int = int32("0+")
    subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = array(
        "Subtopology", "0+", nullable="0+", default=None
    )


@attrs.frozen
class StreamsGroupDescribeEndpoint:
    host: str = string("0+")
    port: int = uint16("0+")


@attrs.frozen
class StreamsGroupDescribeAssignment:
    active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array("TaskIds", "0+")
    standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array("TaskIds", "0+")
    warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array("TaskIds", "0+")


@attrs.frozen
class StreamsGroupDescribeTopologyDescriptionNode:
    name: str = string("1+")
    node_type: int = int8("1+")
    source_topics: list[str] = array("string", "1+")
    sink_topic: str | None = string("1+", nullable="1+", default=None)
    stores: list[str] = array("string", "1+")
    successors: list[str] = array("string", "1+")


@attrs.frozen
class StreamsGroupDescribeTopologyDescription:
    subtopologies: list[StreamsGroupDescribeResponse.TopologyDescriptionSubtopology] = array(
        "TopologyDescriptionSubtopology", "1+"
    )
    global_stores: list[StreamsGroupDescribeResponse.TopologyDescriptionGlobalStore] = array(
        "TopologyDescriptionGlobalStore", "1+"
    )


@attrs.define
class StreamsGroupDescribeResponse:
    SCHEMA = schema_of(ApiKey.STREAMS_GROUP_DESCRIBE)
    Assignment = StreamsGroupDescribeAssignment
    Endpoint = StreamsGroupDescribeEndpoint
    Topology = StreamsGroupDescribeTopology
    TopologyDescription = StreamsGroupDescribeTopologyDescription
    TopologyDescriptionNode = StreamsGroupDescribeTopologyDescriptionNode

    @attrs.define
    class DescribedGroup:
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        topology: StreamsGroupDescribeTopology | None = optional_struct(StreamsGroupDescribeTopology, "0+")
        members: list[StreamsGroupDescribeResponse.Member] = array("Member", "0+")
        authorized_operations: int = int32("0+", default=INT32_MIN)
        topology_description: StreamsGroupDescribeTopologyDescription | None = optional_struct(
            StreamsGroupDescribeTopologyDescription, "1+"
        )
        topology_description_status: int = int8("1+")
        assignor_name: str | None = string("1+", nullable="1+", default=None, ignorable=True)

    @attrs.define
    class Subtopology:
        subtopology_id: str = string("0+")
        source_topics: list[str] = array("string", "0+")
        repartition_sink_topics: list[str] = array("string", "0+")
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = array("TopicInfo", "0+")
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = array("TopicInfo", "0+")

    @attrs.define
    class Member:
        member_id: str = string("0+")
        member_epoch: int = int32("0+")
        instance_id: str | None = string("0+", nullable="0+", default=None)
        rack_id: str | None = string("0+", nullable="0+", default=None)
        client_id: str = string("0+")
        client_host: str = string("0+")
        topology_epoch: int = int32("0+")
        process_id: str = string("0+")
        user_endpoint: StreamsGroupDescribeEndpoint | None = optional_struct(StreamsGroupDescribeEndpoint, "0+")
        client_tags: list[StreamsGroupDescribeResponse.KeyValue] = array("KeyValue", "0+")
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = array("TaskOffset", "0+")
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = array("TaskOffset", "0+")
        assignment: StreamsGroupDescribeAssignment = struct(StreamsGroupDescribeAssignment, "0+")
        target_assignment: StreamsGroupDescribeAssignment = struct(StreamsGroupDescribeAssignment, "0+")
        is_classic: bool = boolean("0+")

    @attrs.define
    class TaskOffset:
        subtopology_id: str = string("0+")
        partition: int = int32("0+")
        offset: int = int64("0+")

    @attrs.define
    class TaskIds:
        subtopology_id: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    @attrs.define
    class KeyValue:
        key: str = string("0+")
        value: str = string("0+")

    @attrs.define
    class TopicInfo:
        name: str = string("0+")
        partitions: int = int32("0+")
        replication_factor: int = int16("0+")
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = array("KeyValue", "0+")

    @attrs.define
    class TopologyDescriptionSubtopology:
        subtopology_id: str = string("1+")
        nodes: list[StreamsGroupDescribeTopologyDescriptionNode] = array("TopologyDescriptionNode", "1+")

    @attrs.define
    class TopologyDescriptionGlobalStore:
        source: StreamsGroupDescribeTopologyDescriptionNode = struct(StreamsGroupDescribeTopologyDescriptionNode, "1+")
        processor: StreamsGroupDescribeTopologyDescriptionNode = struct(
            StreamsGroupDescribeTopologyDescriptionNode, "1+"
        )

    throttle_time_ms: int = int32("0+")
    groups: list[StreamsGroupDescribeResponse.DescribedGroup] = array("DescribedGroup", "0+")
