"""Produce: append record batches."""

from __future__ import annotations

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, record_set, string, struct, uuid


@attrs.define
class ProduceRequest:
    SCHEMA = schema_of(ApiKey.PRODUCE)

    @attrs.define
    class TopicProduceData:
        name: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partition_data: list[ProduceRequest.PartitionProduceData] = array("PartitionProduceData", "0+")

    @attrs.define
    class PartitionProduceData:
        index: int = int32("0+")
        records: Buffer | None = record_set("0+", nullable="0+")

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[ProduceRequest.TopicProduceData] = array("TopicProduceData", "0+")


@attrs.frozen
class ProduceLeaderIdAndEpoch:
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@attrs.define
class ProduceResponse:
    SCHEMA = schema_of(ApiKey.PRODUCE)
    LeaderIdAndEpoch = ProduceLeaderIdAndEpoch

    @attrs.define
    class TopicProduceResponse:
        name: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = array("PartitionProduceResponse", "0+")

    @attrs.define
    class PartitionProduceResponse:
        index: int = int32("0+")
        error_code: int = int16("0+")
        base_offset: int = int64("0+")
        log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
        log_start_offset: int = int64("5+", default=-1, ignorable=True)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = array(
            "BatchIndexAndErrorMessage", "8+", ignorable=True
        )
        error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
        current_leader: ProduceLeaderIdAndEpoch = struct(ProduceLeaderIdAndEpoch, "10+", tag=0)

    @attrs.define
    class BatchIndexAndErrorMessage:
        batch_index: int = int32("8+")
        batch_index_error_message: str | None = string("8+", nullable="8+", default=None)

    @attrs.define
    class NodeEndpoint:
        node_id: int = int32("10+")
        host: str = string("10+")
        port: int = int32("10+")
        rack: str | None = string("10+", nullable="10+", default=None)

    responses: list[ProduceResponse.TopicProduceResponse] = array("TopicProduceResponse", "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[ProduceResponse.NodeEndpoint] = array("NodeEndpoint", "10+", tag=0)
