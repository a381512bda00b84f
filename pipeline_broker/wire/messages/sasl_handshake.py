"""SaslHandshake: which SASL mechanism a client wants to use."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, string


@attrs.define
class SaslHandshakeRequest:
    """Request of API key 17: versions 0-1, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=17, versions="0-1", flexible="none")

    mechanism: str = string("0+")


@attrs.define
class SaslHandshakeResponse:
    """Response of API key 17: versions 0-1, never flexible."""

    SCHEMA: ClassVar[Schema] = Schema(key=17, versions="0-1", flexible="none")

    error_code: int = int16("0+")
    mechanisms: list[str] = array("string", "0+")
