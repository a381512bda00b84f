"""ListGroups: list groups of all kinds."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string


@attrs.define
class ListGroupsRequest:
    SCHEMA = schema_of(ApiKey.LIST_GROUPS)

    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


@attrs.define
class ListGroupsResponse:
    SCHEMA = schema_of(ApiKey.LIST_GROUPS)

    @attrs.define
    class ListedGroup:
        group_id: str = string("0+")
        protocol_type: str = string("0+")
        group_state: str = string("4+", ignorable=True)
        group_type: str = string("5+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListGroupsResponse.ListedGroup] = array("ListedGroup", "0+")
