"""LeaveGroup: remove members from a group."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int16, int32, string


@attrs.define
class LeaveGroupRequest:
    SCHEMA = schema_of(ApiKey.LEAVE_GROUP)

    @attrs.define
    class MemberIdentity:
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None)
        reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[LeaveGroupRequest.MemberIdentity] = array("MemberIdentity", "3+")


@attrs.define
class LeaveGroupResponse:
    SCHEMA = schema_of(ApiKey.LEAVE_GROUP)

    @attrs.define
    class MemberResponse:
        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+")
        error_code: int = int16("3+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[LeaveGroupResponse.MemberResponse] = array("MemberResponse", "3+")
