"""AddOffsetsToTxn: add the offsets of a group to a transaction."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import int16, int32, int64, string


@attrs.define
class AddOffsetsToTxnRequest:
    SCHEMA = schema_of(ApiKey.ADD_OFFSETS_TO_TXN)

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


@attrs.define
class AddOffsetsToTxnResponse:
    SCHEMA = schema_of(ApiKey.ADD_OFFSETS_TO_TXN)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
