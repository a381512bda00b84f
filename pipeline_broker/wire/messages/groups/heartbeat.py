"""Heartbeat: keep a member in a classic group."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import int16, int32, string


@attrs.define
class HeartbeatRequest:
    SCHEMA = schema_of(ApiKey.HEARTBEAT)

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@attrs.define
class HeartbeatResponse:
    SCHEMA = schema_of(ApiKey.HEARTBEAT)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
