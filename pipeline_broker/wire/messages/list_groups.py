"""ListGroups: list groups."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string


@attrs.define
class ListGroupsRequest:
    """Request of API key 16: versions 0-5, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=16, versions="0-5", flexible="3+")

    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


@attrs.define
class ListGroupsResponse:
    """Response of API key 16: versions 0-5, flexible 3+."""

    SCHEMA: ClassVar[Schema] = Schema(key=16, versions="0-5", flexible="3+")

    @attrs.define
    class ListedGroup:
        """One element of `groups`."""

        group_id: str = string("0+")
        protocol_type: str = string("0+")
        group_state: str = string("4+", ignorable=True)
        group_type: str = string("5+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListGroupsResponse.ListedGroup] = array("ListedGroup", "0+")
