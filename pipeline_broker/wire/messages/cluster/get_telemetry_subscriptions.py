"""GetTelemetrySubscriptions: get the metrics that a client should push (KIP-714)."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, uuid


@attrs.define
class GetTelemetrySubscriptionsRequest:
    SCHEMA = schema_of(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)

    client_instance_id: bytes = uuid("0+")


@attrs.define
class GetTelemetrySubscriptionsResponse:
    SCHEMA = schema_of(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array("int8", "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array("string", "0+")
