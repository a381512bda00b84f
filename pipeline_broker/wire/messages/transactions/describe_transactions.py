"""DescribeTransactions: describe transactions by their transactional ids."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string


@attrs.define
class DescribeTransactionsRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_TRANSACTIONS)

    transactional_ids: list[str] = array("string", "0+")


@attrs.define
class DescribeTransactionsResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_TRANSACTIONS)

    @attrs.define
    class TransactionState:
        error_code: int = int16("0+")
        transactional_id: str = string("0+")
        transaction_state: str = string("0+")
        transaction_timeout_ms: int = int32("0+")
        transaction_start_time_ms: int = int64("0+")
        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        topics: list[DescribeTransactionsResponse.TopicData] = array("TopicData", "0+")

    @attrs.define
    class TopicData:
        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    throttle_time_ms: int = int32("0+")
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = array("TransactionState", "0+")
