"""TxnOffsetCommit: the positions of a group, stored when a transaction commits."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, int64, string


@attrs.define
class TxnOffsetCommitRequest:
    """Request of API key 28: versions 0-5, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=28, versions="0-5", flexible="3+")

    @attrs.define
    class TxnOffsetCommitRequestTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = array(
            "TxnOffsetCommitRequestPartition", "0+"
        )

    @attrs.define
    class TxnOffsetCommitRequestPartition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        committed_offset: int = int64("0+")
        committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
        committed_metadata: str | None = string("0+", nullable="0+")

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = array("TxnOffsetCommitRequestTopic", "0+")


@attrs.define
class TxnOffsetCommitResponse:
    """Response of API key 28: versions 0-5, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=28, versions="0-5", flexible="3+")

    @attrs.define
    class TxnOffsetCommitResponseTopic:
        """One element of `topics`."""

        name: str = string("0+")
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = array(
            "TxnOffsetCommitResponsePartition", "0+"
        )

    @attrs.define
    class TxnOffsetCommitResponsePartition:
        """One element of `partitions`."""

        partition_index: int = int32("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = array("TxnOffsetCommitResponseTopic", "0+")
