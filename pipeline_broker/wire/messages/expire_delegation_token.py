"""ExpireDelegationToken: make a token last shorter, or end it."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, binary, int16, int32, int64


@attrs.define
class ExpireDelegationTokenRequest:
    """Request of API key 40: versions 1-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=40, versions="1-2", flexible="2+")

    hmac: bytes = binary("0+")
    expiry_time_period_ms: int = int64("0+")


@attrs.define
class ExpireDelegationTokenResponse:
    """Response of API key 40: versions 1-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=40, versions="1-2", flexible="2+")

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
