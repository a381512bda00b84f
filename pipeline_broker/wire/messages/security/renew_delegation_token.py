"""RenewDelegationToken: extend the expiry time of a token."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import binary, int16, int32, int64


@attrs.define
class RenewDelegationTokenRequest:
    SCHEMA = schema_of(ApiKey.RENEW_DELEGATION_TOKEN)

    hmac: bytes = binary("0+")
    renew_period_ms: int = int64("0+")


@attrs.define
class RenewDelegationTokenResponse:
    SCHEMA = schema_of(ApiKey.RENEW_DELEGATION_TOKEN)

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
