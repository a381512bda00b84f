"""DescribeClientQuotas: read the quotas of users, client ids and addresses."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, float64, int8, int16, int32, string


@attrs.define
class DescribeClientQuotasRequest:
    """Request of API key 48: versions 0-1, flexible 1+."""

    SCHEMA: ClassVar[Schema] = Schema(key=48, versions="0-1", flexible="1+")

    @attrs.define
    class ComponentData:
        """One element of `components`."""

        entity_type: str = string("0+")
        match_type: int = int8("0+")
        match: str | None = string("0+", nullable="0+")

    components: list[DescribeClientQuotasRequest.ComponentData] = array("ComponentData", "0+")
    strict: bool = boolean("0+")


@attrs.define
class DescribeClientQuotasResponse:
    """Response of API key 48: versions 0-1, flexible 1+."""

    SCHEMA: ClassVar[Schema] = Schema(key=48, versions="0-1", flexible="1+")

    @attrs.define
    class EntryData:
        """One element of `entries`."""

        entity: list[DescribeClientQuotasResponse.EntityData] = array("EntityData", "0+")
        values: list[DescribeClientQuotasResponse.ValueData] = array("ValueData", "0+")

    @attrs.define
    class EntityData:
        """One element of `entity`."""

        entity_type: str = string("0+")
        entity_name: str | None = string("0+", nullable="0+")

    @attrs.define
    class ValueData:
        """One element of `values`."""

        key: str = string("0+")
        value: float = float64("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[DescribeClientQuotasResponse.EntryData] | None = array("EntryData", "0+", nullable="0+")
