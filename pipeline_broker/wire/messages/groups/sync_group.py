"""SyncGroup: send the assignments of a generation as its leader, and receive one's own."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, binary, int16, int32, string


@attrs.define
class SyncGroupRequest:
    SCHEMA = schema_of(ApiKey.SYNC_GROUP)

    @attrs.define
    class SyncGroupRequestAssignment:
        member_id: str = string("0+")
        assignment: bytes = binary("0+")

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = array("SyncGroupRequestAssignment", "0+")


@attrs.define
class SyncGroupResponse:
    SCHEMA = schema_of(ApiKey.SYNC_GROUP)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = binary("0+")
