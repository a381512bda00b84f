"""AddPartitionsToTxn: partitions belong to a transaction; versions 4 and up are spoken between brokers, in batches."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int16, int32, int64, string


@attrs.define
class AddPartitionsToTxnRequest:
    """Request of API key 24: versions 0-5, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=24, versions="0-5", flexible="3+")

    @attrs.define
    class AddPartitionsToTxnTransaction:
        """One element of `transactions`."""

        transactional_id: str = string("4+")
        producer_id: int = int64("4+")
        producer_epoch: int = int16("4+")
        verify_only: bool = boolean("4+")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = array("AddPartitionsToTxnTopic", "4+")

    @attrs.define
    class AddPartitionsToTxnTopic:
        """One element of `topics` and of `v3_and_below_topics`."""

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
    """Response of API key 24: versions 0-5, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=24, versions="0-5", flexible="3+")

    @attrs.define
    class AddPartitionsToTxnResult:
        """One element of `results_by_transaction`."""

        transactional_id: str = string("4+")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = array(
            "AddPartitionsToTxnTopicResult", "4+"
        )

    @attrs.define
    class AddPartitionsToTxnTopicResult:
        """One element of `topic_results` and of `results_by_topic_v3_and_below`."""

        name: str = string("0+")
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = array(
            "AddPartitionsToTxnPartitionResult", "0+"
        )

    @attrs.define
    class AddPartitionsToTxnPartitionResult:
        """One element of `results_by_partition`."""

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
