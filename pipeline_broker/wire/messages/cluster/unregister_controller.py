"""UnregisterController: remove the registration of a controller (KIP-1312)."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import int16, int32, string


@attrs.define
class UnregisterControllerRequest:
    SCHEMA = schema_of(ApiKey.UNREGISTER_CONTROLLER)

    controller_id: int = int32("0+")


@attrs.define
class UnregisterControllerResponse:
    SCHEMA = schema_of(ApiKey.UNREGISTER_CONTROLLER)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
