"""The interface that groups of every kind have towards the rest of the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.commits import CommitRequest
from pipeline_broker.state.groups.memory import HeldBytes
from pipeline_broker.state.groups.offset_records import CommittedOffset

__all__ = ["MEMBERS_AT_ONCE_MAX", "Group", "GroupType", "OffsetAge"]

MEMBERS_AT_ONCE_MAX = 200
"""Largest group whose rebalance may share a turn with other requests: about half a millisecond of work."""

OffsetAge = Callable[[CommittedOffset], int]
"""Returns the time from which the age of an offset counts, in milliseconds since 1970."""


class GroupType(Enum):
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(Protocol):
    """A group of any kind.

    Attributes:
        memory: memory held by the group.
    """

    group_id: str
    memory: HeldBytes

    @property
    def group_type(self) -> GroupType: ...

    @property
    def members(self) -> Mapping[str, Any]: ...

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type_name(self) -> str:
        """`consumer`, `share`, `streams`, or the protocol type that classic members agreed on; empty if none."""

    @property
    def is_empty(self) -> bool:
        """True if the group has no members, so that it may be deleted."""

    @property
    def is_deleted(self) -> bool:
        """True once a deletion of the group has begun; its tombstones may not be durable yet."""

    @property
    def is_deletable_unasked(self) -> bool:
        """True if the group may be deleted with the last of its offsets, without a request."""

    @property
    def is_joining_long(self) -> bool:
        """True if a join may take too long to share a turn with other requests (see MEMBERS_AT_ONCE_MAX)."""

    def commit_error(self, request: CommitRequest) -> ErrorCode: ...

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return NONE if a client with this member id and epoch may read the group's offsets, otherwise the error."""

    def is_subscribed_to(self, topic: str) -> bool: ...

    def delete_offsets_error(self) -> ErrorCode:
        """Return NONE if offsets of topics without a subscription may be deleted now, otherwise the error."""

    def offset_age(self) -> OffsetAge | None:
        """Return a function for the start of an offset's age; None while no offset of the group expires."""
