"""The input and output of an assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from pipeline_broker.state.groups.consumer.member import Partitions

__all__ = ["Assignor", "AssignorMember"]


class AssignorMember(NamedTuple):
    """One member, as an assignor sees it.

    Attributes:
        topic_ids: existing topics that the member subscribes to.
        target: its previous target assignment.
    """

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: Partitions


Assignor: TypeAlias = Callable[[list[AssignorMember], Mapping[bytes, int]], dict[str, Partitions]]
"""Maps the members, and the number of partitions by topic id, to the target assignment of each member."""
