"""Questions and answers of classic groups, free of versions: an API handler translates to and from these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from pipeline_broker.wire.error import ErrorCode

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
    """One way of assigning that a member supports, with what it tells the leader about itself."""

    name: str
    metadata: bytes


@attrs.frozen(kw_only=True)
class JoinRequest:
    """A member, or somebody who wants to be one, asks for the next generation.

    Attributes:
        fresh_id: unique text (a random uuid) from which a member id is made if one is needed.
        member_id_required: join again with the id that was given (version 4 and later).
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
    """What the leader learns of a member."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to a `JoinRequest`."""

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
    """A member asks for its assignment; the leader brings everybody's."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = attrs.Factory(dict)


class SyncResult(NamedTuple):
    """The answer to a `SyncRequest`."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@attrs.frozen(kw_only=True)
class HeartbeatRequest:
    """A member says that it is alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class LeavingMember(NamedTuple):
    """Who leaves: a member by its id, or a static one by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None


class LeftMember(NamedTuple):
    """What became of a `LeavingMember`."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@attrs.frozen
class LeaveResult:
    """The answer to a request to leave; `error` is about the request, each member has its own."""

    error: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()


@attrs.frozen
class DescribedMember:
    """A member as an administrator sees it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen(kw_only=True)
class DescribedGroup:
    """A group as an administrator sees it; one that does not exist is `Dead`, with the reason in `not_found`."""

    group_id: str
    not_found: str | None = None
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
