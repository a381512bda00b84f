"""PushTelemetry: metrics of a client."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, binary, boolean, int8, int16, int32, uuid


@attrs.define
class PushTelemetryRequest:
    """Request of API key 72: versions 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=72, versions="0", flexible="0+")

    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = binary("0+")


@attrs.define
class PushTelemetryResponse:
    """Response of API key 72: versions 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=72, versions="0", flexible="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
