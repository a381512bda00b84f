"""DescribeTransactions: the state of transactions, by their ids."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, int64, string


@attrs.define
class DescribeTransactionsRequest:
    """Request of API key 65: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=65, versions="0", flexible="0+")

    transactional_ids: list[str] = array("string", "0+")


@attrs.define
class DescribeTransactionsResponse:
    """Response of API key 65: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=65, versions="0", flexible="0+")

    @attrs.define
    class TransactionState:
        """One element of `transaction_states`."""

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
        """One element of `topics`."""

        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    throttle_time_ms: int = int32("0+")
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = array("TransactionState", "0+")
