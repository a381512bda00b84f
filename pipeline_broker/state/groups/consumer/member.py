"""A member of a consumer group, and the metadata that it sends about itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from pipeline_broker.state.groups.memory import MEMBER_BYTES, size_of_names, sizes_of
from pipeline_broker.state.groups.modern.member import NO_ASSIGNMENT, CurrentAssignment

__all__ = ["NO_METADATA", "ClassicMetadata", "Member", "MemberMetadata", "OwnedPartitions", "Partitions"]

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""
OwnedPartitions: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch in which it was assigned."""


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


NO_METADATA = MemberMetadata()


@attrs.frozen
class Member:
    member_id: str
    metadata: MemberMetadata = NO_METADATA
    current: CurrentAssignment = NO_ASSIGNMENT
