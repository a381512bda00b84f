"""ListTransactions: list transactional ids with their states."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, int64, string


@attrs.define
class ListTransactionsRequest:
    SCHEMA = schema_of(ApiKey.LIST_TRANSACTIONS)

    state_filters: list[str] = array("string", "0+")
    producer_id_filters: list[int] = array("int64", "0+")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@attrs.define
class ListTransactionsResponse:
    SCHEMA = schema_of(ApiKey.LIST_TRANSACTIONS)

    @attrs.define
    class TransactionState:
        transactional_id: str = string("0+")
        producer_id: int = int64("0+")
        transaction_state: str = string("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array("string", "0+")
    transaction_states: list[ListTransactionsResponse.TransactionState] = array("TransactionState", "0+")
