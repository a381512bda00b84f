"""What administrators ask of groups of any kind, and how they are answered.

OffsetDelete    Kafka asks the group as a whole first, then for each topic whether a member subscribes to it
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from pipeline_broker.state.group_records import OffsetKey
from pipeline_broker.state.groups.commits import deletion
from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.offsets import CommittedOffsets
from pipeline_broker.state.outcome import Write
from pipeline_broker.wire.error import ErrorCode

__all__ = ["DeletedOffset", "DeletedOffsets", "ListedGroup", "delete_offsets"]


@attrs.frozen
class ListedGroup:
    """One line of a list of groups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@attrs.frozen
class DeletedOffset:
    """A partition whose committed offset is to be forgotten."""

    topic: str
    partition: int


@attrs.frozen
class DeletedOffsets:
    """The answer to a request to delete offsets.

    Attributes:
        error: about the request; if there is one, nothing is deleted.
        errors: one for each partition.
        write: the answer may leave when it is durable.
    """

    error: ErrorCode = ErrorCode.NONE
    errors: tuple[ErrorCode, ...] = ()
    write: Write | None = None


def delete_offsets(
    group: Group | None, offsets: CommittedOffsets, group_id: str, wanted: Collection[DeletedOffset]
) -> DeletedOffsets:
    """Decide which offsets are forgotten: none of the group without a name, which may commit and be deleted."""
    if not group_id:
        return DeletedOffsets(ErrorCode.INVALID_GROUP_ID)
    if group is None:
        return DeletedOffsets(ErrorCode.GROUP_ID_NOT_FOUND)
    error = group.delete_offsets_error()
    if error is not ErrorCode.NONE:
        return DeletedOffsets(error)
    errors = tuple(
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(each.topic) else ErrorCode.NONE for each in wanted
    )
    free = (
        OffsetKey(group_id, each.topic, each.partition)
        for each, refusal in zip(wanted, errors, strict=True)
        if refusal is ErrorCode.NONE
    )
    keys = offsets.some_deletable(group_id, free)
    if not keys:
        return DeletedOffsets(errors=errors)
    return DeletedOffsets(errors=errors, write=deletion(offsets, group_id, keys))
