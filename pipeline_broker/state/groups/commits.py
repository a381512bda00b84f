"""OffsetCommit and OffsetFetch, as far as they are the same for every kind of group.

`Group.commit_error` decides which members may commit, and `offset_expiry.py` which offsets expire.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import BatchBody, NewRecord
from pipeline_broker.state.groups.offset_records import (
    NO_TOPIC_ID,
    CommittedOffset,
    OffsetKey,
    offset_record,
    offset_tombstone,
)
from pipeline_broker.state.groups.offsets import CommittedOffsets
from pipeline_broker.state.groups.pending_offsets import size_of_offset
from pipeline_broker.state.outcome import StateRecord, Write

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig

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
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = NO_TOPIC_ID


class PreparedOffsets:
    """The offsets of a commit, encoded as the records of a batch. It covers all work that does not depend on the group.

    Offsets are added one by one, so that a large commit can be prepared over several turns of the event loop. The
    commit itself stays one change.

    Args:
        now_ms: the commit timestamp.
        retention_ms: see CommitRequest.

    Attributes:
        errors: one per added offset; NONE if it may be stored.
        changes, records, body: the offsets that may be stored.
        size_bytes: memory that the offsets take if all of their partitions are new.
        metadata_size: length of the metadata of all offsets together.
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

    def __init__(self, group_id: str, config: BrokerConfig, now_ms: int, retention_ms: int = -1) -> None:
        self._group_id = group_id
        self._now_ms = now_ms
        self._expire_ms = -1 if retention_ms < 0 else now_ms + retention_ms
        self._metadata_size_max = config.offset_metadata_max_bytes
        self.errors: list[ErrorCode] = []
        self.changes: list[tuple[OffsetKey, CommittedOffset]] = []
        self.records: list[StateRecord] = []
        self.body = BatchBody()
        self.size_bytes = self.metadata_size = 0

    def add(self, partition: PartitionCommit) -> None:
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
    """An offset commit by a member, or by a client that does not use group management (generation -1).

    Attributes:
        retention_ms: retention of these offsets (OffsetCommit versions 2 to 4); -1 uses the broker's.
        missing_group_named: report a missing group as GROUP_ID_NOT_FOUND (version 9 and later) instead of
            ILLEGAL_GENERATION.
        producer_id: producer of the transaction that the commit is part of; None outside of transactions.
        prepared: the same partitions, if the caller has prepared them already.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_ms: int = -1
    missing_group_named: bool = True
    partitions: Sequence[PartitionCommit] = ()
    producer_id: int | None = None
    prepared: PreparedOffsets | None = None


@attrs.frozen
class CommitResult:
    """The result of a commit: one error per partition of the request.

    Partitions without an error may be acknowledged once `write` is durable. It is None if no offset is stored.
    """

    errors: tuple[ErrorCode, ...]
    write: Write | None = None


@attrs.frozen
class FetchTopic:
    topic: str
    partitions: Sequence[int]
    topic_id: bytes = NO_TOPIC_ID


@attrs.frozen
class FetchedOffset:
    """The committed offset of one partition; offset -1 if the group never committed one."""

    topic: str
    partition: int
    committed: CommittedOffset
    error: ErrorCode = ErrorCode.NONE


NOT_COMMITTED = CommittedOffset(-1)
# Per commit. Apache Kafka refuses about as much, by `max.message.bytes` of a batch of `__consumer_offsets`.
METADATA_BYTES_MAX = 1 << 20


def prepare(request: CommitRequest, config: BrokerConfig, now_ms: int) -> PreparedOffsets:
    prepared = PreparedOffsets(request.group_id, config, now_ms, request.retention_ms)
    for partition in request.partitions:
        prepared.add(partition)
    return prepared


def commit(offsets: CommittedOffsets, request: CommitRequest, prepared: PreparedOffsets) -> CommitResult:
    """Return the errors of a commit, and the write that stores its acceptable offsets.

    The caller has checked that the group accepts the commit. All offsets are refused with INVALID_COMMIT_OFFSET_SIZE if
    their metadata exceeds METADATA_BYTES_MAX, or the memory does not suffice.
    """
    changes = prepared.changes
    if not changes:
        return CommitResult(tuple(prepared.errors))
    # The cheap test counts every offset as new. `admits` is exact: it subtracts the offsets that they replace.
    fits_as_new = prepared.size_bytes <= offsets.memory.free_bytes
    is_admitted = fits_as_new or offsets.admits(changes, request.producer_id)
    if prepared.metadata_size > METADATA_BYTES_MAX or not is_admitted:
        refused = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        return CommitResult(tuple(refused if error is ErrorCode.NONE else error for error in prepared.errors))
    change = offsets.change(changes, request.producer_id)
    write = Write(request.group_id, tuple(prepared.records), change, prepared.body)
    return CommitResult(tuple(prepared.errors), write)


def deletion(offsets: CommittedOffsets, group_id: str, keys: Iterable[OffsetKey]) -> Write:
    change = offsets.change((key, None) for key in keys)
    return Write(group_id, tuple(offset_tombstone(key) for key, _ in change.changes), change)


def fetch(
    offsets: CommittedOffsets, group_id: str, topics: Iterable[FetchTopic] | None, *, require_stable: bool = False
) -> list[FetchedOffset]:
    """Return committed offsets of a group, in the order of the requested partitions.

    The offset is -1 for a partition without a commit, or with one only for a deleted topic of the same name.

    Args:
        topics: the requested partitions; None requests all.
        require_stable: return UNSTABLE_OFFSET_COMMIT for partitions that an open transaction has committed to
            (KIP-447).
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
    return NO_TOPIC_ID not in {committed, wanted} and committed != wanted
