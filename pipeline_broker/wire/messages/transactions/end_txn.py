"""EndTxn: commit or abort the transaction of a producer."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import boolean, int16, int32, int64, string


@attrs.define
class EndTxnRequest:
    SCHEMA = schema_of(ApiKey.END_TXN)

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


@attrs.define
class EndTxnResponse:
    SCHEMA = schema_of(ApiKey.END_TXN)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
