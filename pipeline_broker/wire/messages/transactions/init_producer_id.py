"""InitProducerId: get or renew a producer id."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import boolean, int16, int32, int64, string


@attrs.define
class InitProducerIdRequest:
    SCHEMA = schema_of(ApiKey.INIT_PRODUCER_ID)

    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


@attrs.define
class InitProducerIdResponse:
    SCHEMA = schema_of(ApiKey.INIT_PRODUCER_ID)

    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
