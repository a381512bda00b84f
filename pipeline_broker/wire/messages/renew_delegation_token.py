"""RenewDelegationToken: make a token last longer."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, binary, int16, int32, int64


@attrs.define
class RenewDelegationTokenRequest:
    """Request of API key 39: versions 1-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=39, versions="1-2", flexible="2+")

    hmac: bytes = binary("0+")
    renew_period_ms: int = int64("0+")


@attrs.define
class RenewDelegationTokenResponse:
    """Response of API key 39: versions 1-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=39, versions="1-2", flexible="2+")

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
