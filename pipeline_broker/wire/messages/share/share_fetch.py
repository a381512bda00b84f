"""ShareFetch: acknowledge acquired records, acquire further ones and read them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import (
    INT32_MAX,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    record_set,
    string,
    struct,
    uuid,
)


@attrs.define
class ShareFetchRequest:
    SCHEMA = schema_of(ApiKey.SHARE_FETCH)

    @attrs.define
    class FetchTopic:
        topic_id: bytes = uuid("0+")
        partitions: list[ShareFetchRequest.FetchPartition] = array("FetchPartition", "0+")

    @attrs.define
    class FetchPartition:
        partition_index: int = int32("0+")
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = array("AcknowledgementBatch", "0+")

    @attrs.define
    class AcknowledgementBatch:
        first_offset: int = int64("0+")
        last_offset: int = int64("0+")
        acknowledge_types: list[int] = array("int8", "0+")

    @attrs.define
    class ForgottenTopic:
        topic_id: bytes = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("0+", default=INT32_MAX)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareFetchRequest.FetchTopic] = array("FetchTopic", "0+")
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = array("ForgottenTopic", "0+")


@attrs.frozen
class ShareFetchLeaderIdAndEpoch:
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


@attrs.define
class ShareFetchResponse:
    SCHEMA = schema_of(ApiKey.SHARE_FETCH)
    LeaderIdAndEpoch = ShareFetchLeaderIdAndEpoch

    @attrs.define
    class ShareFetchableTopicResponse:
        topic_id: bytes = uuid("0+")
        partitions: list[ShareFetchResponse.PartitionData] = array("PartitionData", "0+")

    @attrs.define
    class PartitionData:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+", default=None)
        acknowledge_error_code: int = int16("0+")
        acknowledge_error_message: str | None = string("0+", nullable="0+", default=None)
        current_leader: ShareFetchLeaderIdAndEpoch = struct(ShareFetchLeaderIdAndEpoch, "0+")
        records: Buffer | Sequence[Buffer] | None = record_set("0+", nullable="0")
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = array("AcquiredRecords", "0+")

    @attrs.define
    class AcquiredRecords:
        first_offset: int = int64("0+")
        last_offset: int = int64("0+")
        delivery_count: int = int16("0+")

    @attrs.define
    class NodeEndpoint:
        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = array("ShareFetchableTopicResponse", "0+")
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = array("NodeEndpoint", "0+")
