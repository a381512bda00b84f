"""Committing and reading offsets: what is the same for groups of all kinds.

Who may commit is said by the group (`group.py`); when an offset goes, by `offset_expiry.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from pipeline_broker.state.group_records import NO_TOPIC_ID, CommittedOffset, OffsetKey, offset_record
from pipeline_broker.state.offsets import CommittedOffsets
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.pending_offsets import Holder
from pipeline_broker.wire.error import ErrorCode

if TYPE_CHECKING:
    from pipeline_broker.state.groups.settings import GroupSettings

__all__ = [
    "CommitRequest",
    "CommitResult",
    "FetchTopic",
    "FetchedOffset",
    "PartitionCommit",
    "commit",
    "fetch",
]


@attrs.frozen(kw_only=True)
class PartitionCommit:
    """One partition of a commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = NO_TOPIC_ID


@attrs.frozen(kw_only=True)
class CommitRequest:
    """A member, or somebody outside of group management (generation -1), says how far it is.

    Attributes:
        retention_ms: how long the offsets are kept (versions 2 to 4); -1 leaves that to the broker.
        missing_group_named: a missing group is GROUP_ID_NOT_FOUND (version 9 and later), not ILLEGAL_GENERATION.
        holder: whose transaction the commit is part of; None for none.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_ms: int = -1
    missing_group_named: bool = True
    partitions: Sequence[PartitionCommit] = ()
    holder: Holder | None = None


@attrs.frozen
class CommitResult:
    """An error per partition of the request; the ones without may be answered when `write` is durable."""

    errors: tuple[ErrorCode, ...]
    write: Write | None = None


@attrs.frozen
class FetchTopic:
    """What somebody wants to know of a topic."""

    topic: str
    partitions: Sequence[int]
    topic_id: bytes = NO_TOPIC_ID


@attrs.frozen
class FetchedOffset:
    """Where a group is in one partition; offset -1 where it never committed.

    Attributes:
        error: why it is not told.
    """

    topic: str
    partition: int
    committed: CommittedOffset
    error: ErrorCode = ErrorCode.NONE


NOT_COMMITTED = CommittedOffset(-1)
METADATA_BYTES_MAX = 1 << 20
"""Of one commit: about what Apache Kafka takes in a batch of its topic (`max.message.bytes`)."""


def commit(
    offsets: CommittedOffsets,
    request: CommitRequest,
    refusals: Iterable[ErrorCode],
    settings: GroupSettings,
    now_ms: int,
) -> CommitResult:
    """Turn what is acceptable of a commit into records; `refusals` are the group's, one for each partition."""
    errors = list(refusals)
    changes: list[tuple[OffsetKey, CommittedOffset]] = []
    for index, partition in enumerate(request.partitions):
        metadata = partition.metadata or ""
        if errors[index] is not ErrorCode.NONE:
            continue
        if len(metadata) > settings.offset_metadata_size_max:
            errors[index] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        committed = CommittedOffset(
            partition.offset,
            partition.leader_epoch,
            metadata,
            now_ms,
            -1 if request.retention_ms < 0 else now_ms + request.retention_ms,
            partition.topic_id,
        )
        changes.append((OffsetKey(request.group_id, partition.topic, partition.partition), committed))
    if not changes:
        return CommitResult(tuple(errors))
    is_too_large = sum(len(committed.metadata) for _, committed in changes) > METADATA_BYTES_MAX
    if is_too_large or not offsets.admits(changes, request.holder):
        refused = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        return CommitResult(tuple(refused if error is ErrorCode.NONE else error for error in errors))
    records = tuple(offset_record(key, committed) for key, committed in changes)
    return CommitResult(tuple(errors), Write(request.group_id, records, offsets.change(changes, request.holder)))


def fetch(
    offsets: CommittedOffsets, group_id: str, topics: Iterable[FetchTopic] | None, *, require_stable: bool = False
) -> list[FetchedOffset]:
    """What a group has committed: for the partitions asked for, in their order, or for all (None).

    With `require_stable` nothing is told that a transaction which is open may change.
    """
    if topics is None:
        return [
            _found(offsets, key, committed, require_stable=require_stable)
            for key, committed in offsets.of_group(group_id)
        ]
    found = []
    for wanted in topics:
        for partition in wanted.partitions:
            key = OffsetKey(group_id, wanted.topic, partition)
            committed = offsets.get(key)
            if committed is None or _other_topic(committed.topic_id, wanted.topic_id):
                committed = NOT_COMMITTED
            found.append(_found(offsets, key, committed, require_stable=require_stable))
    return found


def _found(
    offsets: CommittedOffsets, key: OffsetKey, committed: CommittedOffset, *, require_stable: bool
) -> FetchedOffset:
    if require_stable and offsets.is_unstable(key):
        return FetchedOffset(key.topic, key.partition, NOT_COMMITTED, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return FetchedOffset(key.topic, key.partition, committed)


def _other_topic(committed: bytes, wanted: bytes) -> bool:
    """Whether the offset is about a former topic of the same name."""
    return NO_TOPIC_ID not in {committed, wanted} and committed != wanted
