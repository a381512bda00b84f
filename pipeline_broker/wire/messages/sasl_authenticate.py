"""SaslAuthenticate: one token of a SASL conversation; the request shows no secret when it is printed."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, binary, int16, int64, string


@attrs.define(repr=False)
class SaslAuthenticateRequest:
    """Request of API key 36: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=36, versions="0-2", flexible="2+")

    auth_bytes: bytes = binary("0+")


@attrs.define(repr=False)
class SaslAuthenticateResponse:
    """Response of API key 36: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=36, versions="0-2", flexible="2+")

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)
