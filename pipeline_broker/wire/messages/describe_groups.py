"""DescribeGroups: groups with members and assignments."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import INT32_MIN, Schema, array, binary, boolean, int16, int32, string


@attrs.define
class DescribeGroupsRequest:
    """Request of API key 15: versions 0-6, flexible 5+."""

    SCHEMA: ClassVar[Schema] = Schema(key=15, versions="0-6", flexible="5+")

    groups: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("3+")


@attrs.define
class DescribeGroupsResponse:
    """Response of API key 15: versions 0-6, flexible 5+."""

    SCHEMA: ClassVar[Schema] = Schema(key=15, versions="0-6", flexible="5+")

    @attrs.define
    class DescribedGroup:
        """One element of `groups`."""

        error_code: int = int16("0+")
        error_message: str | None = string("6+", nullable="6+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        protocol_type: str = string("0+")
        protocol_data: str = string("0+")
        members: list[DescribeGroupsResponse.DescribedGroupMember] = array("DescribedGroupMember", "0+")
        authorized_operations: int = int32("3+", default=INT32_MIN)

    @attrs.define
    class DescribedGroupMember:
        """One element of `members`."""

        member_id: str = string("0+")
        group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
        client_id: str = string("0+")
        client_host: str = string("0+")
        member_metadata: bytes = binary("0+")
        member_assignment: bytes = binary("0+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribeGroupsResponse.DescribedGroup] = array("DescribedGroup", "0+")
