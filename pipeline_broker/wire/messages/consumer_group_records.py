"""Records of `__consumer_offsets` that hold the consumer groups of KIP-848."""

from __future__ import annotations

from typing import ClassVar

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
    """Record key of type 3: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=3, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ConsumerGroupMetadataValue:
    """Record value of type 3: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=3, versions="0", flexible="0+")

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0)


@attrs.define
class ConsumerGroupPartitionMetadataKey:
    """Record key of type 4: version 0, never flexible; written by brokers before 4.1."""

    SCHEMA: ClassVar[Schema] = Schema(key=4, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ConsumerGroupPartitionMetadataValue:
    """Record value of type 4: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=4, versions="0", flexible="0+")

    @attrs.define
    class TopicMetadata:
        """One element of `topics`."""

        topic_id: bytes = uuid("0+")
        topic_name: str = string("0+")
        num_partitions: int = int32("0+")
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = array(
            "PartitionMetadata", "0+"
        )

    @attrs.define
    class PartitionMetadata:
        """One element of `partition_metadata`."""

        partition: int = int32("0+")
        racks: list[str] = array("string", "0+")

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = array("TopicMetadata", "0+")


@attrs.define
class ConsumerGroupMemberMetadataKey:
    """Record key of type 5: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=5, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.frozen
class ConsumerGroupClassicMemberMetadata:
    """What `classic_member_metadata` holds."""

    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = array("ClassicProtocol", "0+")


@attrs.define
class ConsumerGroupMemberMetadataValue:
    """Record value of type 5: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=5, versions="0", flexible="0+")
    ClassicMemberMetadata = ConsumerGroupClassicMemberMetadata

    @attrs.define
    class ClassicProtocol:
        """One element of `supported_protocols`."""

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
    """Record key of type 6: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=6, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ConsumerGroupTargetAssignmentMetadataValue:
    """Record value of type 6: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=6, versions="0", flexible="0+")

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


@attrs.define
class ConsumerGroupTargetAssignmentMemberKey:
    """Record key of type 7: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=7, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ConsumerGroupTargetAssignmentMemberValue:
    """Record value of type 7: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=7, versions="0", flexible="0+")

    @attrs.define
    class TopicPartition:
        """One element of `topic_partitions`."""

        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = array("TopicPartition", "0+")


@attrs.define
class ConsumerGroupCurrentMemberAssignmentKey:
    """Record key of type 8: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=8, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ConsumerGroupCurrentMemberAssignmentValue:
    """Record value of type 8: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=8, versions="0", flexible="0+")

    @attrs.define
    class TopicPartitions:
        """One element of `assigned_partitions` and `partitions_pending_revocation`."""

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
    """Record key of type 16: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=16, versions="0", flexible="none")

    group_id: str = string("0")
    regular_expression: str = string("0")


@attrs.define
class ConsumerGroupRegularExpressionValue:
    """Record value of type 16: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=16, versions="0", flexible="0+")

    topics: list[str] = array("string", "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
