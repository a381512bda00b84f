"""Records of `__consumer_offsets` that hold share groups."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int32, int64, string, uuid


@attrs.define
class ShareGroupMemberMetadataKey:
    """Record key of type 10: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=10, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ShareGroupMemberMetadataValue:
    """Record value of type 10: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=10, versions="0", flexible="0+")

    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("string", "0+")


@attrs.define
class ShareGroupMetadataKey:
    """Record key of type 11: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=11, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ShareGroupMetadataValue:
    """Record value of type 11: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=11, versions="0", flexible="0+")

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+")


@attrs.define
class ShareGroupTargetAssignmentMetadataKey:
    """Record key of type 12: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=12, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ShareGroupTargetAssignmentMetadataValue:
    """Record value of type 12: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=12, versions="0", flexible="0+")

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


@attrs.define
class ShareGroupTargetAssignmentMemberKey:
    """Record key of type 13: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=13, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ShareGroupTargetAssignmentMemberValue:
    """Record value of type 13: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=13, versions="0", flexible="0+")

    @attrs.define
    class TopicPartition:
        """One element of `topic_partitions`."""

        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = array("TopicPartition", "0+")


@attrs.define
class ShareGroupCurrentMemberAssignmentKey:
    """Record key of type 14: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=14, versions="0", flexible="none")

    group_id: str = string("0")
    member_id: str = string("0")


@attrs.define
class ShareGroupCurrentMemberAssignmentValue:
    """Record value of type 14: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=14, versions="0", flexible="0+")

    @attrs.define
    class TopicPartitions:
        """One element of `assigned_partitions`."""

        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = array("TopicPartitions", "0+")


@attrs.define
class ShareGroupStatePartitionMetadataKey:
    """Record key of type 15: version 0, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=15, versions="0", flexible="none")

    group_id: str = string("0")


@attrs.define
class ShareGroupStatePartitionMetadataValue:
    """Record value of type 15: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=15, versions="0", flexible="0+")

    @attrs.define
    class TopicPartitionsInfo:
        """One element of `initializing_topics`."""

        topic_id: bytes = uuid("0+")
        topic_name: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    @attrs.define
    class TopicInfo:
        """One element of `deleting_topics`."""

        topic_id: bytes = uuid("0+")
        topic_name: str = string("0+")

    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = array(
        "TopicPartitionsInfo", "0+"
    )
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = array(
        "TopicPartitionsInfo", "0+"
    )
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = array("TopicInfo", "0+")
