"""AddRaftVoter: add a controller to the quorum."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, boolean, int16, int32, string, uint16, uuid


@attrs.define
class AddRaftVoterRequest:
    SCHEMA = schema_of(ApiKey.ADD_RAFT_VOTER)

    @attrs.define
    class Listener:
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")

    cluster_id: str | None = string("0+", nullable="0+")
    timeout_ms: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("0+")
    listeners: list[AddRaftVoterRequest.Listener] = array("Listener", "0+")
    ack_when_committed: bool = boolean("1+", default=True)


@attrs.define
class AddRaftVoterResponse:
    SCHEMA = schema_of(ApiKey.ADD_RAFT_VOTER)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)
