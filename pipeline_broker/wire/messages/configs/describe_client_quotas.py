"""DescribeClientQuotas: read the quotas of users, client ids and addresses."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, float64, int8, int16, int32, string


@attrs.define
class DescribeClientQuotasRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_CLIENT_QUOTAS)

    @attrs.define
    class ComponentData:
        entity_type: str = string("0+")
        match_type: int = int8("0+")
        match: str | None = string("0+", nullable="0+")

    components: list[DescribeClientQuotasRequest.ComponentData] = array("ComponentData", "0+")
    strict: bool = boolean("0+")


@attrs.define
class DescribeClientQuotasResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_CLIENT_QUOTAS)

    @attrs.define
    class EntryData:
        entity: list[DescribeClientQuotasResponse.EntityData] = array("EntityData", "0+")
        values: list[DescribeClientQuotasResponse.ValueData] = array("ValueData", "0+")

    @attrs.define
    class EntityData:
        entity_type: str = string("0+")
        entity_name: str | None = string("0+", nullable="0+")

    @attrs.define
    class ValueData:
        key: str = string("0+")
        value: float = float64("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[DescribeClientQuotasResponse.EntryData] | None = array("EntryData", "0+", nullable="0+")
