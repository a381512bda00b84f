"""Heartbeat: stay a member of a group."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, int16, int32, string


@attrs.define
class HeartbeatRequest:
    """Request of API key 12: versions 0-4, flexible 4+."""

    SCHEMA: ClassVar[Schema] = Schema(key=12, versions="0-4", flexible="4+")

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@attrs.define
class HeartbeatResponse:
    """Response of API key 12: versions 0-4, flexible 4+."""

    SCHEMA: ClassVar[Schema] = Schema(key=12, versions="0-4", flexible="4+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
