"""A member of a streams group: its metadata, its current assignment, and the offsets of its tasks."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pipeline_broker.state.groups.memory import MEMBER_BYTES, size_of_names, sizes_of
from pipeline_broker.state.groups.modern.member import NO_ASSIGNMENT, CurrentAssignment

__all__ = ["NO_METADATA", "Endpoint", "Member", "MemberMetadata"]

Endpoint = tuple[str, int]
"""Host and port of an application, for its interactive queries."""


@attrs.frozen(kw_only=True)
class MemberMetadata:
    """Metadata that a member sends about itself.

    Attributes:
        process_id: identifies the process, which may have several members, one for each thread.
        client_tags: for rack-aware assignment.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = attrs.Factory(dict)

    @property
    def size_bytes(self) -> int:
        texts = sizes_of((self.instance_id, self.rack_id, self.client_id, self.client_host, self.process_id))
        host = 0 if self.endpoint is None else sizes_of(self.endpoint[:1])
        tags = size_of_names(self.client_tags) + sizes_of(self.client_tags.values())
        # Twice: a group exists in its pending and in its durable state.
        return 2 * (MEMBER_BYTES + texts + host + tags)


NO_METADATA = MemberMetadata()


@attrs.frozen
class Member:
    member_id: str
    metadata: MemberMetadata = NO_METADATA
    current: CurrentAssignment = NO_ASSIGNMENT
