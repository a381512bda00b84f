"""Requests and responses of classic groups, independent of API versions. The API handlers translate them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from pipeline_broker.base.error_code import ErrorCode

__all__ = [
    "DescribedGroup",
    "DescribedMember",
    "HeartbeatRequest",
    "JoinRequest",
    "JoinResult",
    "JoinedMember",
    "LeaveResult",
    "LeavingMember",
    "LeftMember",
    "MemberProtocol",
    "SyncRequest",
    "SyncResult",
]


@attrs.frozen
class MemberProtocol:
    """A protocol (assignment strategy) that a member supports, with the member's metadata for the leader."""

    name: str
    metadata: bytes


@attrs.frozen(kw_only=True)
class JoinRequest:
    """A JoinGroup request of a member or a new client.

    Attributes:
        fresh_id: a random UUID, used for the member id if the request has none.
        member_id_required: the client must join again with the id that it receives (version 4 and later).
        assignment_skippable: the client understands `skip_assignment` (version 9 and later).
    """

    group_id: str
    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    fresh_id: str
    member_id_required: bool = True
    assignment_skippable: bool = True


class JoinedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@attrs.frozen(kw_only=True)
class SyncRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = attrs.Factory(dict)


class SyncResult(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@attrs.frozen(kw_only=True)
class HeartbeatRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class LeavingMember(NamedTuple):
    """A member to remove; a static one may be named by its instance id alone (member id "")."""

    member_id: str
    group_instance_id: str | None = None


class LeftMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@attrs.frozen
class LeaveResult:
    """The result of a LeaveGroup request. `error` is about the whole request; each member has its own."""

    error: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()


@attrs.frozen
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen(kw_only=True)
class DescribedGroup:
    """A described group. A missing group has the state `Dead`, and the reason in `not_found`."""

    group_id: str
    not_found: str | None = None
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
