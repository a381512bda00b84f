"""DeleteGroups: delete empty groups."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string


@attrs.define
class DeleteGroupsRequest:
    """Request of API key 42: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=42, versions="0-2", flexible="2+")

    groups_names: list[str] = array("string", "0+")


@attrs.define
class DeleteGroupsResponse:
    """Response of API key 42: versions 0-2, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=42, versions="0-2", flexible="2+")

    @attrs.define
    class DeletableGroupResult:
        """One element of `results`."""

        group_id: str = string("0+")
        error_code: int = int16("0+")

    throttle_time_ms: int = int32("0+")
    results: list[DeleteGroupsResponse.DeletableGroupResult] = array("DeletableGroupResult", "0+")
