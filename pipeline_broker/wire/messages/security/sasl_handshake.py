"""SaslHandshake: choose a SASL mechanism."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, string


@attrs.define
class SaslHandshakeRequest:
    SCHEMA = schema_of(ApiKey.SASL_HANDSHAKE)

    mechanism: str = string("0+")


@attrs.define
class SaslHandshakeResponse:
    SCHEMA = schema_of(ApiKey.SASL_HANDSHAKE)

    error_code: int = int16("0+")
    mechanisms: list[str] = array("string", "0+")
