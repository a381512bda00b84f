"""ShareGroupHeartbeat: join, stay in or leave a share group. The response contains the assignment."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, optional_struct, string, uuid


@attrs.define
class ShareGroupHeartbeatRequest:
    SCHEMA = schema_of(ApiKey.SHARE_GROUP_HEARTBEAT)

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array("string", "0+", nullable="0+", default=None)


@attrs.frozen
class ShareGroupHeartbeatAssignment:
    topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = array("TopicPartitions", "0+")


@attrs.define
class ShareGroupHeartbeatResponse:
    SCHEMA = schema_of(ApiKey.SHARE_GROUP_HEARTBEAT)
    Assignment = ShareGroupHeartbeatAssignment

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
    assignment: ShareGroupHeartbeatAssignment | None = optional_struct(ShareGroupHeartbeatAssignment, "0+")
