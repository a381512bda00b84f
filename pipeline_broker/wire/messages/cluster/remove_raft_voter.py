"""RemoveRaftVoter: remove a controller from the quorum."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import int16, int32, string, uuid


@attrs.define
class RemoveRaftVoterRequest:
    SCHEMA = schema_of(ApiKey.REMOVE_RAFT_VOTER)

    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("0+")


@attrs.define
class RemoveRaftVoterResponse:
    SCHEMA = schema_of(ApiKey.REMOVE_RAFT_VOTER)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)
