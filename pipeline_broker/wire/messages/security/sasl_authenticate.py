"""SaslAuthenticate: exchange one SASL token. The `repr` of a request shows no secrets."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import binary, int16, int64, string


@attrs.define(repr=False)
class SaslAuthenticateRequest:
    SCHEMA = schema_of(ApiKey.SASL_AUTHENTICATE)

    auth_bytes: bytes = binary("0+")


@attrs.define(repr=False)
class SaslAuthenticateResponse:
    SCHEMA = schema_of(ApiKey.SASL_AUTHENTICATE)

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)
