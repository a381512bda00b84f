"""Committing and reading offsets: what is the same for groups of all kinds.

Who may commit is said by the group (`group.py`); when an offset goes, by `offset_expiry.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from pipeline_broker.records.batch import BatchBody, NewRecord
from pipeline_broker.state.group_records import NO_TOPIC_ID, CommittedOffset, OffsetKey, offset_record, offset_tombstone
from pipeline_broker.state.offsets import CommittedOffsets
from pipeline_broker.state.outcome import StateRecord, Write
from pipeline_broker.state.pending_offsets import Holder, size_of_offset
from pipeline_broker.wire.error import ErrorCode

if TYPE_CHECKING:
    from pipeline_broker.state.groups.settings import GroupSettings

__all__ = [
    "CommitRequest",
    "CommitResult",
    "FetchTopic",
    "FetchedOffset",
    "PartitionCommit",
    "PreparedOffsets",
    "commit",
    "deletion",
    "fetch",
    "prepare",
]


class PartitionCommit(NamedTuple):
    """One partition of a commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = NO_TOPIC_ID


class PreparedOffsets:
    """The offsets of a commit as records in their batch: all of its work that does not depend on the group.

    It is done offset by offset, so that others may have their turns in between; the commit itself is one change.

    Args:
        group_id: whose offsets.
        settings: of all groups.
        now_ms: when they are committed.
        retention_ms: see CommitRequest.

    Attributes:
        errors: for each that was added why it may not be stored, or NONE.
        changes, records, body: of those that may be stored.
        size_bytes: that they would take if there were none of these partitions yet.
        metadata_size: of all of them.
    """

    __slots__ = (
        "_expire_ms",
        "_group_id",
        "_metadata_size_max",
        "_now_ms",
        "body",
        "changes",
        "errors",
        "metadata_size",
        "records",
        "size_bytes",
    )

    def __init__(self, group_id: str, settings: GroupSettings, now_ms: int, retention_ms: int = -1) -> None:
        self._group_id = group_id
        self._now_ms = now_ms
        self._expire_ms = -1 if retention_ms < 0 else now_ms + retention_ms
        self._metadata_size_max = settings.offset_metadata_size_max
        self.errors: list[ErrorCode] = []
        self.changes: list[tuple[OffsetKey, CommittedOffset]] = []
        self.records: list[StateRecord] = []
        self.body = BatchBody()
        self.size_bytes = self.metadata_size = 0

    def add(self, partition: PartitionCommit) -> None:
        """Prepare the next one."""
        metadata = partition.metadata or ""
        if len(metadata) > self._metadata_size_max:
            self.errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            return
        key = OffsetKey(self._group_id, partition.topic, partition.partition)
        committed = CommittedOffset(
            partition.offset, partition.leader_epoch, metadata, self._now_ms, self._expire_ms, partition.topic_id
        )
        record = offset_record(key, committed)
        self.errors.append(ErrorCode.NONE)
        self.changes.append((key, committed))
        self.records.append(record)
        self.body.add(NewRecord(record.value, record.key, self._now_ms))
        self.size_bytes += size_of_offset(key, committed)
        self.metadata_size += len(metadata)


@attrs.frozen(kw_only=True)
class CommitRequest:
    """A member, or somebody outside of group management (generation -1), says how far it is.

    Attributes:
        retention_ms: how long the offsets are kept (versions 2 to 4); -1 leaves that to the broker.
        missing_group_named: a missing group is GROUP_ID_NOT_FOUND (version 9 and later), not ILLEGAL_GENERATION.
        holder: whose transaction the commit is part of; None for none.
        prepared: the same partitions, where that was done before.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_ms: int = -1
    missing_group_named: bool = True
    partitions: Sequence[PartitionCommit] = ()
    holder: Holder | None = None
    prepared: PreparedOffsets | None = None


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


def prepare(request: CommitRequest, settings: GroupSettings, now_ms: int) -> PreparedOffsets:
    """Prepare the partitions of a request that nobody has prepared."""
    prepared = PreparedOffsets(request.group_id, settings, now_ms, request.retention_ms)
    for partition in request.partitions:
        prepared.add(partition)
    return prepared


def commit(offsets: CommittedOffsets, request: CommitRequest, prepared: PreparedOffsets) -> CommitResult:
    """Store what is acceptable of a commit that the group takes."""
    changes = prepared.changes
    if not changes:
        return CommitResult(tuple(prepared.errors))
    is_room_for_all = prepared.size_bytes <= offsets.memory.room_bytes  # else it is looked at what they replace
    is_admitted = is_room_for_all or offsets.admits(changes, request.holder)
    if prepared.metadata_size > METADATA_BYTES_MAX or not is_admitted:
        refused = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        return CommitResult(tuple(refused if error is ErrorCode.NONE else error for error in prepared.errors))
    change = offsets.change(changes, request.holder)
    write = Write(request.group_id, tuple(prepared.records), change, prepared.body)
    return CommitResult(tuple(prepared.errors), write)


def deletion(offsets: CommittedOffsets, group_id: str, keys: Iterable[OffsetKey]) -> Write:
    """Delete offsets of a group."""
    change = offsets.change((key, None) for key in keys)
    return Write(group_id, tuple(offset_tombstone(key) for key, _ in change.changes), change)


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
