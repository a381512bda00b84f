"""ConsumerGroupHeartbeat (KIP-848): join, stay in or leave a consumer group. The response contains the assignment."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, optional_struct, string, uuid


@attrs.define
class ConsumerGroupHeartbeatRequest:
    SCHEMA = schema_of(ApiKey.CONSUMER_GROUP_HEARTBEAT)

    @attrs.define
    class TopicPartitions:
        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array("string", "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = array(
        "TopicPartitions", "0+", nullable="0+", default=None
    )


@attrs.frozen
class ConsumerGroupHeartbeatAssignment:
    topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = array("TopicPartitions", "0+")


@attrs.define
class ConsumerGroupHeartbeatResponse:
    SCHEMA = schema_of(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    Assignment = ConsumerGroupHeartbeatAssignment

    @attrs.define
    class TopicPartitions:
        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: ConsumerGroupHeartbeatAssignment | None = optional_struct(ConsumerGroupHeartbeatAssignment, "0+")
