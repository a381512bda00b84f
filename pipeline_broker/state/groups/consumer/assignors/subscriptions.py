"""What an assignor is given and gives back.

Rules of this room: assignors are pure functions, named as in Kafka's `group.consumer.assignors`. Racks are not looked
at. The same input gives the same assignment, in whichever order members are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from pipeline_broker.state.groups.consumer.member import Partitions

__all__ = ["Assignor", "AssignorMember"]


class AssignorMember(NamedTuple):
    """One member as an assignor sees it.

    Attributes:
        topic_ids: what it subscribes to, of topics that exist.
        target: what it was to own so far.
    """

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: Partitions


Assignor: TypeAlias = Callable[[list[AssignorMember], Mapping[bytes, int]], dict[str, Partitions]]
"""Members and the number of partitions of each topic -> what each member is to own."""
