"""A registry of all groups by their ids, in two views: pending (`get`) and durable (`shown`).

Requests are decided on the pending view and clients see the durable one. A kind that shows its decisions at once, like
Kafka's classic groups, registers the same object in both.
"""

from __future__ import annotations

from collections.abc import ValuesView

from pipeline_broker.state.errors import MisplacedRecordError
from pipeline_broker.state.groups.group import Group, GroupType
from pipeline_broker.state.groups.memory import GROUP_BYTES, GroupMemory, sizes_of

__all__ = ["GroupRegistry", "check_replaceable"]


def check_replaceable(group: Group | None, kind: GroupType) -> None:
    """Check that a replayed record may replace an existing group with one of another kind.

    As in Kafka's GroupMetadataManager, a group with nothing but offsets may become a group of any kind. Any other group
    must have been deleted by an earlier record.

    Args:
        group: the existing group, if any.
        kind: the kind of group in the record, for the error message.

    Raises:
        MisplacedRecordError: the group may not be replaced.
    """
    if group is None:
        return
    has_offsets_only = group.is_empty and not group.protocol_type_name
    if not has_offsets_only:
        there = group.group_type.value
        raise MisplacedRecordError(
            f"the record is of a {kind.value} group, but group {group.group_id!r} is a {there} group"
        )


INT64_MAX = 2**63 - 1


def _size_of(group: Group) -> int:
    return GROUP_BYTES + sizes_of((group.group_id,))


class GroupRegistry:
    """All groups of a broker, one per id.

    Args:
        memory: a total in which each group counts while `get` returns it; None for a total without a bound.
    """

    def __init__(self, memory: GroupMemory | None = None) -> None:
        self.memory = GroupMemory(INT64_MAX) if memory is None else memory
        self._groups: dict[str, Group] = {}
        self._shown: dict[str, Group] = {}

    def get(self, group_id: str) -> Group | None:
        """Return the latest state of a group, including pending writes; None if unknown.

        See `shown` for the durable state.
        """
        return self._groups.get(group_id)

    def all(self) -> list[Group]:
        return list(self._groups.values())

    def put(self, group: Group) -> None:
        before = self._groups.get(group.group_id)
        if before is not group:
            if before is not None:
                self.remove(before)
            self._groups[group.group_id] = group
            self.memory.bytes_held += _size_of(group)
            group.memory.count_in(self.memory)

    def remove(self, group: Group) -> None:
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
            group.memory.count_in(None)
            self.memory.bytes_held -= _size_of(group)

    def shown(self, group_id: str) -> Group | None:
        return self._shown.get(group_id)

    def all_shown(self) -> ValuesView[Group]:
        return self._shown.values()

    def show(self, group: Group) -> None:
        self._shown[group.group_id] = group

    def hide(self, group: Group) -> None:
        """Hide a deleted group from clients, unless another one has replaced it."""
        if self._shown.get(group.group_id) is group:
            del self._shown[group.group_id]
