"""ShareAcknowledge: acknowledge acquired records."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, int64, string, struct, uuid


@attrs.define
class ShareAcknowledgeRequest:
    SCHEMA = schema_of(ApiKey.SHARE_ACKNOWLEDGE)

    @attrs.define
    class AcknowledgeTopic:
        topic_id: bytes = uuid("0+")
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = array("AcknowledgePartition", "0+")

    @attrs.define
    class AcknowledgePartition:
        partition_index: int = int32("0+")
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = array(
            "AcknowledgementBatch", "0+"
        )

    @attrs.define
    class AcknowledgementBatch:
        first_offset: int = int64("0+")
        last_offset: int = int64("0+")
        acknowledge_types: list[int] = array("int8", "0+")

    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = array("AcknowledgeTopic", "0+")


@attrs.frozen
class ShareAcknowledgeLeaderIdAndEpoch:
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


@attrs.define
class ShareAcknowledgeResponse:
    SCHEMA = schema_of(ApiKey.SHARE_ACKNOWLEDGE)
    LeaderIdAndEpoch = ShareAcknowledgeLeaderIdAndEpoch

    @attrs.define
    class ShareAcknowledgeTopicResponse:
        topic_id: bytes = uuid("0+")
        partitions: list[ShareAcknowledgeResponse.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        current_leader: ShareAcknowledgeLeaderIdAndEpoch = struct(ShareAcknowledgeLeaderIdAndEpoch, "0+")

    @attrs.define
    class NodeEndpoint:
        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = array(
        "ShareAcknowledgeTopicResponse", "0+"
    )
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = array("NodeEndpoint", "0+")
