"""All groups by their ids, whatever their kind.

Rules of this file: a group is decided upon as it will be (`get`) and shown as it is durable (`shown`). Kinds that show
what they decide, as classic groups do in Kafka, give the same object for both.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline_broker.state.errors import MisplacedRecordError
from pipeline_broker.state.groups.group import Group, GroupType
from pipeline_broker.state.groups.memory import GROUP_BYTES, GroupMemory, sizes_of

__all__ = ["GroupRegistry", "check_replaceable"]


def check_replaceable(group: Group | None, kind: GroupType) -> None:
    """Whether a group of a record may take the place of one that is there.

    A group of which nothing but offsets is known may become one of any kind, as in Kafka's GroupMetadataManager; any
    other must have been deleted by an earlier record.

    Args:
        group: that is there; None for none.
        kind: of the record, for the error.

    Raises:
        MisplacedRecordError: it may not.
    """
    if group is None:
        return
    has_offsets_only = group.is_empty and not group.protocol_type_name
    if not has_offsets_only:
        there = group.group_type.value
        raise MisplacedRecordError(f"a {kind.value} group's record: group {group.group_id!r} is a {there} group")


INT64_MAX = 2**63 - 1


def _size_of(group: Group) -> int:
    """What the registry itself holds of a group."""
    return GROUP_BYTES + sizes_of((group.group_id,))


class GroupRegistry:
    """One group for each id.

    Args:
        memory: of all groups; each counts while `get` gives it.
    """

    def __init__(self, memory: GroupMemory | None = None) -> None:
        self.memory = GroupMemory(INT64_MAX) if memory is None else memory
        self._groups: dict[str, Group] = {}
        self._shown: dict[str, Group] = {}

    def get(self, group_id: str) -> Group | None:
        """A group as it will be when all that is on its way is durable."""
        return self._groups.get(group_id)

    def all(self) -> list[Group]:
        """All groups, as `get` gives them."""
        return list(self._groups.values())

    def put(self, group: Group) -> None:
        """Take in a group, instead of any other with its id."""
        before = self._groups.get(group.group_id)
        if before is not group:
            if before is not None:
                self.remove(before)
            self._groups[group.group_id] = group
            self.memory.bytes_held += _size_of(group)
            group.memory.count_in(self.memory)

    def remove(self, group: Group) -> None:
        """Forget a group, unless another one has its id by now."""
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
            group.memory.count_in(None)
            self.memory.bytes_held -= _size_of(group)

    def shown(self, group_id: str) -> Group | None:
        """A group as it is durable."""
        return self._shown.get(group_id)

    def all_shown(self) -> Iterator[Group]:
        return iter(self._shown.values())

    def show(self, group: Group) -> None:
        """A group, or its kind, is durable."""
        self._shown[group.group_id] = group

    def hide(self, group: Group) -> None:
        """That a group is gone is durable, unless another one has its id by now."""
        if self._shown.get(group.group_id) is group:
            del self._shown[group.group_id]
