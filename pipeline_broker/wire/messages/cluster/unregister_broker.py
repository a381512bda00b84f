"""UnregisterBroker: remove the registration of a broker."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import int16, int32, string


@attrs.define
class UnregisterBrokerRequest:
    SCHEMA = schema_of(ApiKey.UNREGISTER_BROKER)

    broker_id: int = int32("0+")


@attrs.define
class UnregisterBrokerResponse:
    SCHEMA = schema_of(ApiKey.UNREGISTER_BROKER)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
