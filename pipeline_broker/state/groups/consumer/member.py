"""A member of a consumer group: its metadata and its current assignment."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

import attrs

from pipeline_broker.state.groups.memory import MEMBER_BYTES, size_of_names, sizes_of

__all__ = [
    "LEAVING_EPOCH",
    "LEAVING_STATIC_EPOCH",
    "NO_ASSIGNMENT",
    "NO_METADATA",
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
"""Partitions by topic id, each with the member epoch in which it was assigned."""

LEAVING_EPOCH = -1
"""Epoch sent by a member that leaves."""
LEAVING_STATIC_EPOCH = -2
"""Epoch sent by a static member that leaves temporarily. It keeps its membership until its session expires."""


class MemberState(IntEnum):
    """States of a member, numbered as in Kafka's records.

    | state | meaning |
    |---|---|
    | STABLE | owns its target assignment |
    | UNREVOKED_PARTITIONS | must revoke partitions, and has not confirmed it yet |
    | UNRELEASED_PARTITIONS | waits for partitions that other members have not revoked yet |
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@attrs.frozen
class ClassicMetadata:
    """Metadata of a member that joined by the classic protocol.

    Attributes:
        protocols: pairs of name and metadata, the preferred one first.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@attrs.frozen(kw_only=True)
class MemberMetadata:
    """Metadata that a member sends about itself.

    Attributes:
        topic_regex: empty if the member subscribes by names only.
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
        texts = sizes_of((self.instance_id, self.rack_id, self.client_id, self.client_host, self.topic_regex))
        protocols = () if self.classic is None else [each for protocol in self.classic.protocols for each in protocol]
        # Twice: a group exists in its pending and in its durable state.
        return 2 * (MEMBER_BYTES + texts + sizes_of(protocols) + size_of_names(self.topic_names))


@attrs.frozen(kw_only=True)
class CurrentAssignment:
    """The epoch and partitions of a member on the way to its target.

    Attributes:
        revoking: partitions that the member must revoke and still owns.
    """

    member_epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: OwnedPartitions = attrs.Factory(dict)
    revoking: OwnedPartitions = attrs.Factory(dict)

    @property
    def must_revoke(self) -> bool:
        """True if the member must revoke partitions; never for a static member that has left temporarily."""
        return self.state is MemberState.UNREVOKED_PARTITIONS and self.member_epoch != LEAVING_STATIC_EPOCH

    def moved_to(
        self, member_epoch: int, state: MemberState, assigned: OwnedPartitions, revoking: OwnedPartitions
    ) -> CurrentAssignment:
        """Return the next assignment. As in Kafka, `previous_epoch` is set even if the epoch stays the same."""
        return CurrentAssignment(
            member_epoch=member_epoch,
            previous_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch


NO_METADATA = MemberMetadata()
NO_ASSIGNMENT = CurrentAssignment()


@attrs.frozen
class Member:
    member_id: str
    metadata: MemberMetadata = NO_METADATA
    current: CurrentAssignment = NO_ASSIGNMENT
