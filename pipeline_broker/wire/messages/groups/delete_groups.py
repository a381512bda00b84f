"""DeleteGroups: delete empty groups."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string


@attrs.define
class DeleteGroupsRequest:
    SCHEMA = schema_of(ApiKey.DELETE_GROUPS)

    groups_names: list[str] = array("string", "0+")


@attrs.define
class DeleteGroupsResponse:
    SCHEMA = schema_of(ApiKey.DELETE_GROUPS)

    @attrs.define
    class DeletableGroupResult:
        group_id: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)

    throttle_time_ms: int = int32("0+")
    results: list[DeleteGroupsResponse.DeletableGroupResult] = array("DeletableGroupResult", "0+")
