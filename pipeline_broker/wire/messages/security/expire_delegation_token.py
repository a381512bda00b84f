"""ExpireDelegationToken: change the expiry time of a token, or expire it at once."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import binary, int16, int32, int64


@attrs.define
class ExpireDelegationTokenRequest:
    SCHEMA = schema_of(ApiKey.EXPIRE_DELEGATION_TOKEN)

    hmac: bytes = binary("0+")
    expiry_time_period_ms: int = int64("0+")


@attrs.define
class ExpireDelegationTokenResponse:
    SCHEMA = schema_of(ApiKey.EXPIRE_DELEGATION_TOKEN)

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
