"""AlterClientQuotas: set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, float64, int16, int32, string


@attrs.define
class AlterClientQuotasRequest:
    SCHEMA = schema_of(ApiKey.ALTER_CLIENT_QUOTAS)

    @attrs.define
    class EntryData:
        entity: list[AlterClientQuotasRequest.EntityData] = array("EntityData", "0+")
        ops: list[AlterClientQuotasRequest.OpData] = array("OpData", "0+")

    @attrs.define
    class EntityData:
        entity_type: str = string("0+")
        entity_name: str | None = string("0+", nullable="0+")

    @attrs.define
    class OpData:
        key: str = string("0+")
        value: float = float64("0+")
        remove: bool = boolean("0+")

    entries: list[AlterClientQuotasRequest.EntryData] = array("EntryData", "0+")
    validate_only: bool = boolean("0+")


@attrs.define
class AlterClientQuotasResponse:
    SCHEMA = schema_of(ApiKey.ALTER_CLIENT_QUOTAS)

    @attrs.define
    class EntryData:
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        entity: list[AlterClientQuotasResponse.EntityData] = array("EntityData", "0+")

    @attrs.define
    class EntityData:
        entity_type: str = string("0+")
        entity_name: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    entries: list[AlterClientQuotasResponse.EntryData] = array("EntryData", "0+")
