"""Questions and answers of classic groups, free of versions: an API handler translates to and from these."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pipeline_broker.wire.error import ErrorCode

__all__ = [
    "DescribedGroup",
    "DescribedMember",
    "GroupSettings",
    "HeartbeatRequest",
    "JoinRequest",
    "JoinResult",
    "JoinedMember",
    "LeaveResult",
    "LeavingMember",
    "LeftMember",
    "ListedGroup",
    "MemberProtocol",
    "SyncRequest",
    "SyncResult",
]

INT32_MAX = 2**31 - 1


@attrs.frozen(kw_only=True)
class GroupSettings:
    """Kafka's settings of groups and committed offsets, with Kafka's defaults."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    group_size_max: int = INT32_MAX
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_size_max: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000


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


@attrs.frozen
class JoinedMember:
    """What the leader learns of a member."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@attrs.frozen(kw_only=True)
class JoinResult:
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


@attrs.frozen(kw_only=True)
class SyncResult:
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


@attrs.frozen
class LeavingMember:
    """Who leaves: a member by its id, or a static one by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None


@attrs.frozen
class LeftMember:
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
    """A group as an administrator sees it; one that does not exist is `Dead`, with `found` False."""

    group_id: str
    found: bool = True
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


@attrs.frozen
class ListedGroup:
    """One line of a list of groups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"
