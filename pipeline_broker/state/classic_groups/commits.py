"""Committing, reading and expiring offsets: what the state of a group allows.

The rules of who may commit are `membership.commit_error`. Expiry, checked now and then:

    group that has a protocol type, Empty        retention after it became Empty (or, not known, after each commit)
    consumers, Stable                            topics nobody subscribes to: retention after each commit
    no protocol type (offsets stored by hand)    retention after each commit
    a commit that brought its own expiry time    at that time
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from pipeline_broker.state.classic_groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, GroupState
from pipeline_broker.state.classic_groups.membership import commit_error
from pipeline_broker.state.classic_groups.turn import Turn
from pipeline_broker.state.group_records import NO_TOPIC_ID, CommittedOffset, OffsetKey, offset_record
from pipeline_broker.state.offsets import CommittedOffsets
from pipeline_broker.state.outcome import Write
from pipeline_broker.wire.error import ErrorCode

__all__ = [
    "CommitRequest",
    "CommitResult",
    "FetchTopic",
    "FetchedOffset",
    "PartitionCommit",
    "commit",
    "expired",
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
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_ms: int = -1
    missing_group_named: bool = True
    partitions: Sequence[PartitionCommit] = ()


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
    """Where a group is in one partition; offset -1 where it never committed."""

    topic: str
    partition: int
    committed: CommittedOffset


NOT_COMMITTED = CommittedOffset(-1)


def commit(turn: Turn, group: ClassicGroup, offsets: CommittedOffsets, request: CommitRequest) -> CommitResult:
    """Check a commit, and turn what is acceptable into records."""
    error = commit_error(group, request.member_id, request.group_instance_id, request.generation_id)
    if error is not ErrorCode.NONE:
        return CommitResult((error,) * len(request.partitions))
    member = group.members.get(request.member_id)
    if member is not None and group.state is not GroupState.EMPTY:
        turn.refresh_session(group, member)
    errors: list[ErrorCode] = []
    changes: list[tuple[OffsetKey, CommittedOffset]] = []
    for partition in request.partitions:
        metadata = partition.metadata or ""
        if len(metadata) > turn.settings.offset_metadata_size_max:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(ErrorCode.NONE)
        committed = CommittedOffset(
            partition.offset,
            partition.leader_epoch,
            metadata,
            turn.now_ms,
            -1 if request.retention_ms < 0 else turn.now_ms + request.retention_ms,
            partition.topic_id,
        )
        changes.append((OffsetKey(request.group_id, partition.topic, partition.partition), committed))
    if not changes:
        return CommitResult(tuple(errors))
    records = tuple(offset_record(key, committed) for key, committed in changes)
    return CommitResult(tuple(errors), Write(request.group_id, records, offsets.change(changes)))


def fetch(offsets: CommittedOffsets, group_id: str, topics: Iterable[FetchTopic] | None) -> list[FetchedOffset]:
    """What a group has committed: for the partitions asked for, in their order, or for all (None)."""
    if topics is None:
        return [FetchedOffset(key.topic, key.partition, committed) for key, committed in offsets.of_group(group_id)]
    found = []
    for wanted in topics:
        for partition in wanted.partitions:
            committed = offsets.get(OffsetKey(group_id, wanted.topic, partition))
            if committed is None or _other_topic(committed.topic_id, wanted.topic_id):
                committed = NOT_COMMITTED
            found.append(FetchedOffset(wanted.topic, partition, committed))
    return found


def _other_topic(committed: bytes, wanted: bytes) -> bool:
    """Whether the offset is about a former topic of the same name."""
    return NO_TOPIC_ID not in {committed, wanted} and committed != wanted


def expired(turn: Turn, group: ClassicGroup, offsets: CommittedOffsets) -> list[OffsetKey]:
    """The offsets of a group that have outlived their time."""
    base_ms = _age_begins(group)
    if base_ms is None:
        return []
    start_ms = base_ms

    def is_expired(key: OffsetKey, committed: CommittedOffset) -> bool:
        if group.topics is not None and key.topic in group.topics:
            return False
        if committed.expire_timestamp_ms >= 0:
            return turn.now_ms >= committed.expire_timestamp_ms
        return turn.now_ms - start_ms(committed) >= turn.settings.offsets_retention_ms

    return offsets.expired(group.group_id, is_expired)


def _age_begins(group: ClassicGroup) -> Callable[[CommittedOffset], int] | None:
    """From when the age of an offset counts; None while nothing of the group expires."""
    if group.protocol_type is None:
        return lambda committed: committed.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        since_ms = group.state_since_ms
        return lambda committed: since_ms if since_ms >= 0 else committed.commit_timestamp_ms
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.state is GroupState.STABLE and group.topics is not None:
        return lambda committed: committed.commit_timestamp_ms
    return None
