"""A member of a consumer group: what it said of itself, and what it owns.

Rules of this room: it is a kind of groups (`state/groups/kind.py`). Everything that records hold is frozen; a group
changes by `ConsumerGroup.apply` only, the same way when something is decided, becomes durable, or is replayed.

    Stable                owns what the target of its epoch says
    UnrevokedPartitions   was asked to give partitions back, and has not said yet that it did
    UnreleasedPartitions  waits for partitions that others have not given back yet
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

import attrs

from pipeline_broker.state.groups.memory import MEMBER_BYTES, size_of_names, sizes_of

__all__ = [
    "LEAVING_EPOCH",
    "LEAVING_STATIC_EPOCH",
    "NOBODY",
    "NOTHING",
    "ClassicMetadata",
    "CurrentAssignment",
    "Member",
    "MemberMetadata",
    "MemberState",
    "OwnedPartitions",
    "Partitions",
]

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""
OwnedPartitions: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""The same, each with the epoch in which it was assigned to its owner."""

LEAVING_EPOCH = -1
"""A member says so that it leaves."""
LEAVING_STATIC_EPOCH = -2
"""A static member says so that it leaves for a while; its place is kept until its session ends."""


class MemberState(IntEnum):
    """Numbered as in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@attrs.frozen
class ClassicMetadata:
    """What a member of the classic protocol said when it joined: its protocols by name, the preferred one first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@attrs.frozen(kw_only=True)
class MemberMetadata:
    """What a member said of itself.

    Attributes:
        topic_regex: empty where it gave none.
        classic: None for members of the consumer protocol.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None

    @property
    def size_bytes(self) -> int:
        """What a member holds that says this, with the entries of its names in the tables of the group.

        It counts twice: groups are kept as they will be and as they are durable.
        """
        texts = sizes_of((self.instance_id, self.rack_id, self.client_id, self.client_host, self.topic_regex))
        said = () if self.classic is None else [each for protocol in self.classic.protocols for each in protocol]
        return 2 * (MEMBER_BYTES + texts + sizes_of(said) + size_of_names(self.topic_names))


@attrs.frozen(kw_only=True)
class CurrentAssignment:
    """Where a member is on its way to its target.

    Attributes:
        revoking: partitions that it was asked to give back, and still owns.
    """

    member_epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = attrs.Factory(dict)
    revoking: OwnedPartitions = attrs.Factory(dict)

    @property
    def gives_back(self) -> bool:
        """Whether the member has partitions to give back; one that left for a while has none."""
        return self.state is MemberState.UNREVOKED_PARTITIONS and self.member_epoch != LEAVING_STATIC_EPOCH

    def moved_to(
        self, member_epoch: int, state: MemberState, assigned: OwnedPartitions, revoking: OwnedPartitions
    ) -> CurrentAssignment:
        """The next step; as in Kafka the epoch before is remembered also where it is the same."""
        return CurrentAssignment(
            member_epoch=member_epoch,
            previous_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member owns exactly what the target of that epoch says."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch


NOBODY = MemberMetadata()
NOTHING = CurrentAssignment()


@attrs.frozen
class Member:
    """One member."""

    member_id: str
    metadata: MemberMetadata = NOBODY
    current: CurrentAssignment = NOTHING
