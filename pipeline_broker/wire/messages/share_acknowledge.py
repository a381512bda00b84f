"""ShareAcknowledge: say what became of acquired records."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int16, int32, int64, string, struct, uuid


@attrs.define
class ShareAcknowledgeRequest:
    """Request of API key 79: versions 1-2, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=79, versions="1-2", flexible="0+")

    @attrs.define
    class AcknowledgeTopic:
        """One element of `topics`."""

        topic_id: bytes = uuid("0+")
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = array("AcknowledgePartition", "0+")

    @attrs.define
    class AcknowledgePartition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = array(
            "AcknowledgementBatch", "0+"
        )

    @attrs.define
    class AcknowledgementBatch:
        """One element of `acknowledgement_batches`."""

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
    """What `current_leader` holds."""

    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


@attrs.define
class ShareAcknowledgeResponse:
    """Response of API key 79: versions 1-2, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=79, versions="1-2", flexible="0+")
    LeaderIdAndEpoch = ShareAcknowledgeLeaderIdAndEpoch

    @attrs.define
    class ShareAcknowledgeTopicResponse:
        """One element of `responses`."""

        topic_id: bytes = uuid("0+")
        partitions: list[ShareAcknowledgeResponse.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        current_leader: ShareAcknowledgeLeaderIdAndEpoch = struct(ShareAcknowledgeLeaderIdAndEpoch, "0+")

    @attrs.define
    class NodeEndpoint:
        """One element of `node_endpoints`."""

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
