"""What a group of any kind is to the rest of the broker.

Rules of this room: it knows what all kinds of groups have in common and imports none of them but on first use; a broker
without a kind of group in use never loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

from pipeline_broker.state.group_records import CommittedOffset
from pipeline_broker.state.groups.commits import CommitRequest
from pipeline_broker.state.groups.memory import HeldBytes
from pipeline_broker.wire.error import ErrorCode

__all__ = ["MEMBERS_AT_ONCE_MAX", "Group", "GroupType", "OffsetAge"]

MEMBERS_AT_ONCE_MAX = 200
"""Members about whom all is decided in a turn that others share: about half a millisecond of work."""

OffsetAge = Callable[[CommittedOffset], int]
"""From when, in milliseconds since 1970, the age of an offset counts."""


class GroupType(Enum):
    """Kinds of groups by the names that clients see."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class Group(Protocol):
    """One group.

    Attributes:
        memory: what it holds.
    """

    group_id: str
    memory: HeldBytes

    @property
    def group_type(self) -> GroupType:
        """Its kind."""

    @property
    def members(self) -> Mapping[str, Any]:
        """Those that are in it, by their ids."""

    @property
    def state_name(self) -> str:
        """Its state as clients see it."""

    @property
    def protocol_type_name(self) -> str:
        """What its members do together: `consumer`, `share`, or what classic members agreed on; empty for none."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it may be deleted."""

    @property
    def is_deleted(self) -> bool:
        """Whether it is on its way to be deleted."""

    @property
    def is_deletable_unasked(self) -> bool:
        """Whether it may go with the last of its offsets."""

    @property
    def is_joining_long(self) -> bool:
        """Whether a member that joins may have more decided than what is decided beside other requests."""

    def commit_error(self, request: CommitRequest) -> ErrorCode:
        """Whether a commit is acceptable."""

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether somebody who calls himself a member may read the group's offsets."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic, as far as that is known."""

    def delete_offsets_error(self) -> ErrorCode:
        """Whether offsets of the group may be deleted now, but for topics that it subscribes to."""

    def offset_age(self) -> OffsetAge | None:
        """From when the age of an offset counts; None while nothing of the group expires."""
