"""AddRaftVoter: add a controller to the quorum."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, boolean, int16, int32, string, uint16, uuid


@attrs.define
class AddRaftVoterRequest:
    """Request of API key 80: versions 0-1, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=80, versions="0-1", flexible="0+")

    @attrs.define
    class Listener:
        """One element of `listeners`."""

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
    """Response of API key 80: versions 0-1, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=80, versions="0-1", flexible="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)
