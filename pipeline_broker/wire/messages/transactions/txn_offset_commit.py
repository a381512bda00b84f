"""TxnOffsetCommit: store offsets of a group that become visible when a transaction commits."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string, uuid


@attrs.define
class TxnOffsetCommitRequest:
    SCHEMA = schema_of(ApiKey.TXN_OFFSET_COMMIT)

    @attrs.define
    class TxnOffsetCommitRequestTopic:
        name: str = string("0-5", ignorable=True)
        topic_id: bytes = uuid("6+", ignorable=True)
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = array(
            "TxnOffsetCommitRequestPartition", "0+"
        )

    @attrs.define
    class TxnOffsetCommitRequestPartition:
        partition_index: int = int32("0+")
        committed_offset: int = int64("0+")
        committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
        committed_metadata: str | None = string("0+", nullable="0+")

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = array("TxnOffsetCommitRequestTopic", "0+")


@attrs.define
class TxnOffsetCommitResponse:
    SCHEMA = schema_of(ApiKey.TXN_OFFSET_COMMIT)

    @attrs.define
    class TxnOffsetCommitResponseTopic:
        name: str = string("0-5", ignorable=True)
        topic_id: bytes = uuid("6+", ignorable=True)
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = array(
            "TxnOffsetCommitResponsePartition", "0+"
        )

    @attrs.define
    class TxnOffsetCommitResponsePartition:
        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = array("TxnOffsetCommitResponseTopic", "0+")
