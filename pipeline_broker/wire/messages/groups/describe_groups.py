"""DescribeGroups: describe classic groups with their members and assignments."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import INT32_MIN, array, binary, boolean, int16, int32, string


@attrs.define
class DescribeGroupsRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_GROUPS)

    groups: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("3+")


@attrs.define
class DescribeGroupsResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_GROUPS)

    @attrs.define
    class DescribedGroup:
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
        member_id: str = string("0+")
        group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
        client_id: str = string("0+")
        client_host: str = string("0+")
        member_metadata: bytes = binary("0+")
        member_assignment: bytes = binary("0+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribeGroupsResponse.DescribedGroup] = array("DescribedGroup", "0+")
