"""UnregisterBroker: forget a broker."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, int16, int32, string


@attrs.define
class UnregisterBrokerRequest:
    """Request of API key 64: versions 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=64, versions="0", flexible="0+")

    broker_id: int = int32("0+")


@attrs.define
class UnregisterBrokerResponse:
    """Response of API key 64: versions 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=64, versions="0", flexible="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
