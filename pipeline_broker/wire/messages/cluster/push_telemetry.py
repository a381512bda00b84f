"""PushTelemetry: send metrics of a client (KIP-714)."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import binary, boolean, int8, int16, int32, uuid


@attrs.define
class PushTelemetryRequest:
    SCHEMA = schema_of(ApiKey.PUSH_TELEMETRY)

    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = binary("0+")


@attrs.define
class PushTelemetryResponse:
    SCHEMA = schema_of(ApiKey.PUSH_TELEMETRY)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
