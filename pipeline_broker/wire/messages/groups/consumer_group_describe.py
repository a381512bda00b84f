"""ConsumerGroupDescribe (KIP-848): describe consumer groups with their epochs, members and assignments."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import INT32_MIN, array, boolean, int8, int16, int32, string, struct, uuid


@attrs.define
class ConsumerGroupDescribeRequest:
    SCHEMA = schema_of(ApiKey.CONSUMER_GROUP_DESCRIBE)

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")


@attrs.frozen
class ConsumerGroupDescribeAssignment:
    topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = array("TopicPartitions", "0+")


@attrs.define
class ConsumerGroupDescribeResponse:
    SCHEMA = schema_of(ApiKey.CONSUMER_GROUP_DESCRIBE)
    Assignment = ConsumerGroupDescribeAssignment

    @attrs.define
    class TopicPartitions:
        topic_id: bytes = uuid("0+")
        topic_name: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    @attrs.define
    class DescribedGroup:
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        assignor_name: str = string("0+")
        members: list[ConsumerGroupDescribeResponse.Member] = array("Member", "0+")
        authorized_operations: int = int32("0+", default=INT32_MIN)

    @attrs.define
    class Member:
        member_id: str = string("0+")
        instance_id: str | None = string("0+", nullable="0+", default=None)
        rack_id: str | None = string("0+", nullable="0+", default=None)
        member_epoch: int = int32("0+")
        client_id: str = string("0+")
        client_host: str = string("0+")
        subscribed_topic_names: list[str] = array("string", "0+")
        subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
        assignment: ConsumerGroupDescribeAssignment = struct(ConsumerGroupDescribeAssignment, "0+")
        target_assignment: ConsumerGroupDescribeAssignment = struct(ConsumerGroupDescribeAssignment, "0+")
        member_type: int = int8("1+", default=-1, ignorable=True)

    throttle_time_ms: int = int32("0+")
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = array("DescribedGroup", "0+")
