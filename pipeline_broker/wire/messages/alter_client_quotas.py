"""AlterClientQuotas: set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, float64, int16, int32, string


@attrs.define
class AlterClientQuotasRequest:
    """Request of API key 49: versions 0-1, flexible 1+."""

    SCHEMA: ClassVar[Schema] = Schema(key=49, versions="0-1", flexible="1+")

    @attrs.define
    class EntryData:
        """One element of `entries`."""

        entity: list[AlterClientQuotasRequest.EntityData] = array("EntityData", "0+")
        ops: list[AlterClientQuotasRequest.OpData] = array("OpData", "0+")

    @attrs.define
    class EntityData:
        """One element of `entity`."""

        entity_type: str = string("0+")
        entity_name: str | None = string("0+", nullable="0+")

    @attrs.define
    class OpData:
        """One element of `ops`."""

        key: str = string("0+")
        value: float = float64("0+")
        remove: bool = boolean("0+")

    entries: list[AlterClientQuotasRequest.EntryData] = array("EntryData", "0+")
    validate_only: bool = boolean("0+")


@attrs.define
class AlterClientQuotasResponse:
    """Response of API key 49: versions 0-1, flexible 1+."""

    SCHEMA: ClassVar[Schema] = Schema(key=49, versions="0-1", flexible="1+")

    @attrs.define
    class EntryData:
        """One element of `entries`."""

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        entity: list[AlterClientQuotasResponse.EntityData] = array("EntityData", "0+")

    @attrs.define
    class EntityData:
        """One element of `entity`."""

        entity_type: str = string("0+")
        entity_name: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    entries: list[AlterClientQuotasResponse.EntryData] = array("EntryData", "0+")
