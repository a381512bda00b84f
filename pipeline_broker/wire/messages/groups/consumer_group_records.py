"""Records of consumer groups (KIP-848) in `__consumer_offsets`."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.schema import (
    Schema,
    array,
    binary,
    int8,
    int32,
    int64,
    optional_struct,
    string,
    uuid,
)


@attrs.define
class ConsumerGroupMetadataKey:
    SCHEMA = Schema(key=3, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ConsumerGroupMetadataValue:
    SCHEMA = Schema(key=3, versions="0", flexible="0+")

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0)


@attrs.define
class ConsumerGroupPartitionMetadataKey:
    SCHEMA = Schema(key=4, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ConsumerGroupPartitionMetadataValue:
    SCHEMA = Schema(key=4, versions="0", flexible="0+")

    @attrs.define
    class TopicMetadata:
        topic_id: bytes = uuid("0+")
        topic_name: str = string("0+")
        num_partitions: int = int32("0+")
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = array(
            "PartitionMetadata", "0+"
        )

    @attrs.define
    class PartitionMetadata:
        partition: int = int32("0+")
        racks: list[str] = array("string", "0+")

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = array("TopicMetadata", "0+")


@attrs.define
class ConsumerGroupMemberMetadataKey:
    SCHEMA = Schema(key=5, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.frozen
class ConsumerGroupClassicMemberMetadata:
    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = array("ClassicProtocol", "0+")


@attrs.define
class ConsumerGroupMemberMetadataValue:
    SCHEMA = Schema(key=5, versions="0", flexible="0+")
    ClassicMemberMetadata = ConsumerGroupClassicMemberMetadata

    @attrs.define
    class ClassicProtocol:
        name: str = string("0+")
        metadata: bytes = binary("0+")

    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("string", "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ConsumerGroupClassicMemberMetadata | None = optional_struct(
        ConsumerGroupClassicMemberMetadata, "0+", tag=0
    )


@attrs.define
class ConsumerGroupTargetAssignmentMetadataKey:
    SCHEMA = Schema(key=6, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ConsumerGroupTargetAssignmentMetadataValue:
    SCHEMA = Schema(key=6, versions="0", flexible="0+")

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


@attrs.define
class ConsumerGroupTargetAssignmentMemberKey:
    SCHEMA = Schema(key=7, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ConsumerGroupTargetAssignmentMemberValue:
    SCHEMA = Schema(key=7, versions="0", flexible="0+")

    @attrs.define
    class TopicPartition:
        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = array("TopicPartition", "0+")


@attrs.define
class ConsumerGroupCurrentMemberAssignmentKey:
    SCHEMA = Schema(key=8, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ConsumerGroupCurrentMemberAssignmentValue:
    SCHEMA = Schema(key=8, versions="0", flexible="0+")

    @attrs.define
    class TopicPartitions:
        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")
        assignment_epochs: list[int] | None = array("int32", "0+", nullable="0+", default=None, tag=0)

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = array(
        "TopicPartitions", "0+"
    )
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = array(
        "TopicPartitions", "0+"
    )


@attrs.define
class ConsumerGroupRegularExpressionKey:
    SCHEMA = Schema(key=16, versions="0", flexible="none")

    group_id: str = string("0")
    regular_expression: str = string("0")


@attrs.define
class ConsumerGroupRegularExpressionValue:
    SCHEMA = Schema(key=16, versions="0", flexible="0+")

    topics: list[str] = array("string", "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
