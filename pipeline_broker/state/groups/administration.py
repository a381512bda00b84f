"""Requests of administrators that apply to every kind of group: ListGroups and OffsetDelete."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.groups.commits import deletion
from pipeline_broker.state.groups.group import Group
from pipeline_broker.state.groups.offset_records import OffsetKey
from pipeline_broker.state.groups.offsets import CommittedOffsets
from pipeline_broker.state.outcome import Write

__all__ = ["DeletedOffset", "DeletedOffsets", "ListedGroup", "delete_offsets"]


@attrs.frozen
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@attrs.frozen
class DeletedOffset:
    topic: str
    partition: int


@attrs.frozen
class DeletedOffsets:
    """The result of an OffsetDelete request.

    Attributes:
        error: the error of the whole request; if it is not NONE, nothing is deleted.
        errors: one per partition, in the order of the request.
        write: the tombstones to append; None if no offset is deleted. The response waits until it is durable.
    """

    error: ErrorCode = ErrorCode.NONE
    errors: tuple[ErrorCode, ...] = ()
    write: Write | None = None


def delete_offsets(
    group: Group | None, offsets: CommittedOffsets, group_id: str, wanted: Collection[DeletedOffset]
) -> DeletedOffsets:
    """Decide which committed offsets of a group may be deleted, and return their tombstones.

    The empty group id is refused, although it may commit offsets and be deleted.
    """
    if not group_id:
        return DeletedOffsets(ErrorCode.INVALID_GROUP_ID)
    if group is None:
        return DeletedOffsets(ErrorCode.GROUP_ID_NOT_FOUND)
    # Kafka checks the group as a whole first, then each topic for a subscribed member.
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
