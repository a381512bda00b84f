"""Records of share groups in `__consumer_offsets`."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int32, int64, string, uuid


@attrs.define
class ShareGroupMemberMetadataKey:
    SCHEMA = Schema(key=10, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ShareGroupMemberMetadataValue:
    SCHEMA = Schema(key=10, versions="0", flexible="0+")

    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("string", "0+")


@attrs.define
class ShareGroupMetadataKey:
    SCHEMA = Schema(key=11, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ShareGroupMetadataValue:
    SCHEMA = Schema(key=11, versions="0", flexible="0+")

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")


@attrs.define
class ShareGroupTargetAssignmentMetadataKey:
    SCHEMA = Schema(key=12, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ShareGroupTargetAssignmentMetadataValue:
    SCHEMA = Schema(key=12, versions="0", flexible="0+")

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


@attrs.define
class ShareGroupTargetAssignmentMemberKey:
    SCHEMA = Schema(key=13, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ShareGroupTargetAssignmentMemberValue:
    SCHEMA = Schema(key=13, versions="0", flexible="0+")

    @attrs.define
    class TopicPartition:
        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = array("TopicPartition", "0+")


@attrs.define
class ShareGroupCurrentMemberAssignmentKey:
    SCHEMA = Schema(key=14, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ShareGroupCurrentMemberAssignmentValue:
    SCHEMA = Schema(key=14, versions="0", flexible="0+")

    @attrs.define
    class TopicPartitions:
        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = array("TopicPartitions", "0+")


@attrs.define
class ShareGroupStatePartitionMetadataKey:
    SCHEMA = Schema(key=15, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ShareGroupStatePartitionMetadataValue:
    SCHEMA = Schema(key=15, versions="0", flexible="0+")

    @attrs.define
    class TopicPartitionsInfo:
        topic_id: bytes = uuid("0+")
        topic_name: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    @attrs.define
    class TopicInfo:
        topic_id: bytes = uuid("0+")
        topic_name: str = string("0+")

    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = array(
        "TopicPartitionsInfo", "0+"
    )
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = array(
        "TopicPartitionsInfo", "0+"
    )
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = array("TopicInfo", "0+")
