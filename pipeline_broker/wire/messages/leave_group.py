"""LeaveGroup: leave a group."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int16, int32, string


@attrs.define
class LeaveGroupRequest:
    """Request of API key 13: versions 0-5, flexible 4+."""

    SCHEMA: ClassVar[Schema] = Schema(key=13, versions="0-5", flexible="4+")

    @attrs.define
    class MemberIdentity:
        """One element of `members`."""

        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None)
        reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[LeaveGroupRequest.MemberIdentity] = array("MemberIdentity", "3+")


@attrs.define
class LeaveGroupResponse:
    """Response of API key 13: versions 0-5, flexible 4+."""

    SCHEMA: ClassVar[Schema] = Schema(key=13, versions="0-5", flexible="4+")

    @attrs.define
    class MemberResponse:
        """One element of `members`."""

        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+")
        error_code: int = int16("3+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[LeaveGroupResponse.MemberResponse] = array("MemberResponse", "3+")
