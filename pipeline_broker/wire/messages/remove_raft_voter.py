"""RemoveRaftVoter: take a controller out of the quorum."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, int16, int32, string, uuid


@attrs.define
class RemoveRaftVoterRequest:
    """Request of API key 81: versions 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=81, versions="0", flexible="0+")

    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("0+")


@attrs.define
class RemoveRaftVoterResponse:
    """Response of API key 81: versions 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=81, versions="0", flexible="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)
