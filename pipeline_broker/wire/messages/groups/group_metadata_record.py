"""Records of classic groups in `__consumer_offsets`."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.schema import Schema, array, binary, int32, int64, string


@attrs.define
class GroupMetadataKey:
    SCHEMA = Schema(key=2, versions="0", flexible="none")

    group: str = string("0")


@attrs.define
class GroupMetadataValue:
    SCHEMA = Schema(key=2, versions="0-4", flexible="4+")

    @attrs.define
    class MemberMetadata:
        member_id: str = string("0+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
        client_id: str = string("0+")
        client_host: str = string("0+")
        rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
        session_timeout: int = int32("0+")
        subscription: bytes = binary("0+")
        assignment: bytes = binary("0+")

    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[GroupMetadataValue.MemberMetadata] = array("MemberMetadata", "0+")
