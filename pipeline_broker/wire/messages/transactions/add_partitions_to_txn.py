"""AddPartitionsToTxn: add partitions to a transaction; versions 4 and later are batches sent between brokers."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, int64, string


@attrs.define
class AddPartitionsToTxnRequest:
    SCHEMA = schema_of(ApiKey.ADD_PARTITIONS_TO_TXN)

    @attrs.define
    class AddPartitionsToTxnTransaction:
        transactional_id: str = string("4+")
        producer_id: int = int64("4+")
        producer_epoch: int = int16("4+")
        verify_only: bool = boolean("4+")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = array("AddPartitionsToTxnTopic", "4+")

    @attrs.define
    class AddPartitionsToTxnTopic:
        name: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = array(
        "AddPartitionsToTxnTransaction", "4+"
    )
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = array(
        "AddPartitionsToTxnTopic", "0-3"
    )


@attrs.define
class AddPartitionsToTxnResponse:
    SCHEMA = schema_of(ApiKey.ADD_PARTITIONS_TO_TXN)

    @attrs.define
    class AddPartitionsToTxnResult:
        transactional_id: str = string("4+")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = array(
            "AddPartitionsToTxnTopicResult", "4+"
        )

    @attrs.define
    class AddPartitionsToTxnTopicResult:
        name: str = string("0+")
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = array(
            "AddPartitionsToTxnPartitionResult", "0+"
        )

    @attrs.define
    class AddPartitionsToTxnPartitionResult:
        partition_index: int = int32("0+")
        partition_error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = array(
        "AddPartitionsToTxnResult", "4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = array(
        "AddPartitionsToTxnTopicResult", "0-3"
    )
