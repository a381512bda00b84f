"""JoinGroup: join a classic group, or its next generation."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, binary, boolean, int16, int32, string


@attrs.define
class JoinGroupRequest:
    SCHEMA = schema_of(ApiKey.JOIN_GROUP)

    @attrs.define
    class JoinGroupRequestProtocol:
        name: str = string("0+")
        metadata: bytes = binary("0+")

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = array("JoinGroupRequestProtocol", "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


@attrs.define
class JoinGroupResponse:
    SCHEMA = schema_of(ApiKey.JOIN_GROUP)

    @attrs.define
    class JoinGroupResponseMember:
        member_id: str = string("0+")
        group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
        metadata: bytes = binary("0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponse.JoinGroupResponseMember] = array("JoinGroupResponseMember", "0+")
