"""The share coordinator: the durable state of share partitions in `__share_group_state`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import attrs

from pipeline_broker.base.error_code import ErrorCode, KafkaError
from pipeline_broker.state.epochs import next_epoch
from pipeline_broker.state.outcome import StateRecord, Write
from pipeline_broker.state.share_coordinator.combining import combine
from pipeline_broker.state.share_coordinator.records import (
    ShareKey,
    ShareRecord,
    snapshot_record,
    tombstone_record,
    update_record,
)
from pipeline_broker.state.share_partitions.messages import StateBatch
from pipeline_broker.wire.messages.share.share_state_records import ShareSnapshotValue, ShareUpdateValue
from pipeline_broker.wire.uuid_text import uuid_text

__all__ = ["NO_EPOCH", "UNINITIALIZED", "ShareState", "ShareStateError", "ShareStates", "StateWrite", "Summary"]

Name = TypeVar("Name", str, bytes)

NO_EPOCH = -1
UNINITIALIZED = -1
"""Start offset before the first fetch; the group's `share.auto.offset.reset` then determines it."""
UNKNOWN_COUNT = -1


class ShareStateError(KafkaError):
    pass


@attrs.frozen
class Summary:
    """The state of a share partition that clients may see; see ShareState."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


@attrs.frozen
class StateWrite:
    """The state that the leader of a share partition wants to persist.

    The epochs are only checked, and -1 skips the check: `initialize` and `set_leader_epoch` change them. A start offset
    of -1 keeps the present one.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: Sequence[StateBatch] = ()


@attrs.define(eq=False)
class ShareState:
    """The state of one share partition.

    Attributes:
        snapshot_epoch: number of the latest snapshot.
        state_epoch: set by each `initialize`, such as a reset of the start offset.
        leader_epoch: highest epoch of a leader that has read the state since the last `initialize`.
        leader_epoch_min: like `leader_epoch`, but over all initializations; leaders of lower epochs are fenced.
        start_offset: records below it are complete; UNINITIALIZED before the first fetch.
        delivery_complete_count: number of complete records after the start offset; -1 if unknown.
        batches: states of the records after the start offset.
        created_ms: creation time.
        updates: number of update records since the latest snapshot.
        snapshot_offset: offset of the latest snapshot in the log; -1 until it is appended.
        durable_summary: the summary when the state was last durable; None before that.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    leader_epoch_min: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    created_ms: int
    updates: int = 0
    snapshot_offset: int = -1
    durable_summary: Summary | None = None

    def summary(self) -> Summary:
        return Summary(self.state_epoch, self.leader_epoch, self.start_offset, self.delivery_complete_count)


@attrs.frozen(eq=False)
class _Change:
    key: ShareKey
    state: ShareState | None
    summary: Summary | None


class ShareStates:
    """The states of all share partitions.

    Unlike other machines, changes count at once for later writes and for leaders that read the state. The journal keeps
    the order, so no later record survives without the earlier ones. Only `summary`, which clients see, is limited to
    durable changes.

    The first record of a share partition is a snapshot. Another snapshot follows after `updates_max` updates. Older
    records are redundant and may be deleted (`redundant_before`).

    Args:
        updates_max: number of update records between two snapshots.
    """

    def __init__(self, updates_max: int = 500) -> None:
        self._updates_max = updates_max
        self._states: dict[ShareKey, ShareState] = {}
        self._keys_of_group: dict[str, set[ShareKey]] = {}
        self._keys_of_topic: dict[bytes, set[ShareKey]] = {}

    def __len__(self) -> int:
        return len(self._states)

    @staticmethod
    def subject(key: ShareKey) -> str:
        """Return the text that selects the partition of `__share_group_state`.

        It consists of group, topic id in base 64 and partition, separated by colons.
        """
        topic_id = uuid_text(key.topic_id)
        return f"{key.group_id}:{topic_id}:{key.partition}"

    # Queries

    def find(self, key: ShareKey) -> ShareState | None:
        return self._states.get(key)

    def summary(self, key: ShareKey) -> Summary | None:
        """Return the durable summary of a share partition; None if nothing of it is durable."""
        state = self._states.get(key)
        return None if state is None else state.durable_summary

    def keys_of_group(self, group_id: str) -> list[ShareKey]:
        return sorted(self._keys_of_group.get(group_id, ()))

    def keys_of_topic(self, topic_id: bytes) -> list[ShareKey]:
        return sorted(self._keys_of_topic.get(topic_id, ()))

    def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state for the leader of a share partition; a leader epoch of NO_EPOCH is not checked.

        Raises:
            ShareStateError: a leader with a higher epoch has read the state, or the share partition was never
                initialized.
        """
        state = self._states.get(key)
        if state is None:
            raise ShareStateError(
                ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed."
            )
        self._check_epochs(state, leader_epoch, NO_EPOCH)
        return state

    # Changes

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, now_ms: int) -> Write:
        """Create a share partition, or reset its start offset and its batches; return the write.

        Raises:
            ShareStateError: the state epoch is lower than the present one, and not NO_EPOCH.
        """
        complete_count = UNKNOWN_COUNT if start_offset == UNINITIALIZED else 0
        state = self._states.get(key)
        if state is not None and state_epoch != NO_EPOCH and state_epoch < state.state_epoch:
            raise _fenced_state_epoch()
        if state is None:
            state = ShareState(
                snapshot_epoch=0,
                state_epoch=state_epoch,
                leader_epoch=0,
                leader_epoch_min=0,
                start_offset=start_offset,
                delivery_complete_count=complete_count,
                batches=(),
                created_ms=now_ms,
            )
            self._put(key, state)
        else:
            state.snapshot_epoch = next_epoch(state.snapshot_epoch)
            state.state_epoch, state.start_offset, state.batches = state_epoch, start_offset, ()
            # `leader_epoch_min` stays, so that leaders that were fenced before remain fenced.
            state.leader_epoch = 0
            state.delivery_complete_count = complete_count
        return self._snapshot(key, state, now_ms)

    def write(self, key: ShareKey, wanted: StateWrite, now_ms: int) -> Write:
        """Persist changes of a share partition, and return the write.

        The write holds a snapshot after `updates_max` updates, and an update otherwise.

        Raises:
            ShareStateError: the share partition was never initialized, or the leader epoch or state epoch is outdated.
        """
        state = self._states.get(key)
        if state is None:
            raise ShareStateError(
                ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."
            )
        self._check_epochs(state, wanted.leader_epoch, wanted.state_epoch)
        _move_start(state, wanted)
        state.batches = combine(state.batches, wanted.batches, state.start_offset)
        if state.updates >= self._updates_max:
            return self.snapshot(key, now_ms)
        state.updates += 1
        # The leader epoch of the state stays the same, as in Kafka (ShareCoordinatorShard): the leader set it when it
        # read.
        value = ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            state_batches=[
                ShareUpdateValue.StateBatch(*batch) for batch in combine((), wanted.batches, state.start_offset)
            ],
        )
        return self._write(key, state, update_record(key, value))

    def set_leader_epoch(self, key: ShareKey, leader_epoch: int, now_ms: int) -> Write:
        """Record that a newer leader has read the state, which fences older leaders; return the write of a snapshot."""
        state = self._states[key]
        state.leader_epoch = state.leader_epoch_min = leader_epoch
        return self.snapshot(key, now_ms)

    def snapshot(self, key: ShareKey, now_ms: int) -> Write:
        state = self._states[key]
        state.snapshot_epoch = next_epoch(state.snapshot_epoch)
        return self._snapshot(key, state, now_ms)

    def delete(self, keys: Iterable[ShareKey]) -> list[Write]:
        gone = [key for key in keys if self._remove(key)]
        return [Write(self.subject(key), (tombstone_record(key),), _Change(key, None, None)) for key in gone]

    def _put(self, key: ShareKey, state: ShareState) -> None:
        self._states[key] = state
        self._keys_of_group.setdefault(key.group_id, set()).add(key)
        self._keys_of_topic.setdefault(key.topic_id, set()).add(key)

    def _remove(self, key: ShareKey) -> bool:
        if self._states.pop(key, None) is None:
            return False
        _discard(self._keys_of_group, key.group_id, key)
        _discard(self._keys_of_topic, key.topic_id, key)
        return True

    def _snapshot(self, key: ShareKey, state: ShareState, now_ms: int) -> Write:
        # Offset -1 until `appended`: no earlier record may be deleted before this one is in the log.
        state.updates, state.snapshot_offset = 0, -1
        value = ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=state.created_ms,
            write_timestamp=now_ms,
            state_batches=[ShareSnapshotValue.StateBatch(*batch) for batch in state.batches],
        )
        return self._write(key, state, snapshot_record(key, value))

    def _write(self, key: ShareKey, state: ShareState, record: StateRecord) -> Write:
        return Write(self.subject(key), (record,), _Change(key, state, state.summary()))

    @staticmethod
    def _check_epochs(state: ShareState, leader_epoch: int, state_epoch: int) -> None:
        if leader_epoch != NO_EPOCH and leader_epoch < state.leader_epoch_min:
            raise ShareStateError(
                ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker."
            )
        if state_epoch != NO_EPOCH and state_epoch < state.state_epoch:
            raise _fenced_state_epoch()

    # Durability

    @staticmethod
    def durable(writes: Iterable[Write]) -> None:
        """Make the changes of durable writes visible in `summary`."""
        for write in writes:
            change = write.change
            assert isinstance(change, _Change)
            if change.state is not None:
                change.state.durable_summary = change.summary

    def appended(self, write: Write, offset: int) -> None:
        """Remember the offset of an appended record if it is a snapshot."""
        change = write.change
        assert isinstance(change, _Change)
        # `updates` is 0 after a snapshot only. Callers report the offset before the next change of the state.
        if change.state is not None and change.state.updates == 0:
            change.state.snapshot_offset = offset

    def redundant_before(self, keys_at: Iterable[ShareKey], end_offset: int) -> int:
        """Return the offset below which one partition of `__share_group_state` holds only redundant records.

        Returns -1 while the latest snapshot of any share partition is not appended.

        Args:
            keys_at: share partitions whose state that partition holds.
            end_offset: log end offset of the partition; the result if `keys_at` is empty.
        """
        # A snapshot that is not appended yet has offset -1, so nothing is redundant until it is.
        return min((self._states[key].snapshot_offset for key in keys_at), default=end_offset)

    def all(self) -> list[ShareKey]:
        return list(self._states)

    # Startup

    def replay(self, record: ShareRecord, offset: int) -> None:
        """Apply a durable record; ignore an update without its snapshot.

        Args:
            offset: the offset of the record in the log.
        """
        key, value, batches = record
        if value is None:
            self._remove(key)
        elif isinstance(value, ShareSnapshotValue):
            self._replay_snapshot(key, value, batches, offset)
        else:
            self._replay_update(key, value, batches)

    def _replay_snapshot(
        self, key: ShareKey, value: ShareSnapshotValue, batches: Sequence[StateBatch], offset: int
    ) -> None:
        # An earlier snapshot may hold a higher leader epoch, if an `initialize` followed it.
        before = self._states.get(key)
        state = ShareState(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            leader_epoch_min=max(value.leader_epoch, 0 if before is None else before.leader_epoch_min),
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=combine((), batches, value.start_offset),
            created_ms=value.create_timestamp,
            snapshot_offset=offset,
        )
        state.durable_summary = state.summary()
        self._put(key, state)

    def _replay_update(self, key: ShareKey, value: ShareUpdateValue, batches: Sequence[StateBatch]) -> None:
        state = self._states.get(key)
        if state is None or state.snapshot_epoch != value.snapshot_epoch:
            return  # its snapshot was deleted with earlier records
        if value.start_offset != UNINITIALIZED:
            state.start_offset = value.start_offset
        state.delivery_complete_count = value.delivery_complete_count
        state.batches = combine(state.batches, batches, state.start_offset)
        state.updates += 1
        state.durable_summary = state.summary()


def _move_start(state: ShareState, wanted: StateWrite) -> None:
    """Apply the start offset of a write and its number of complete records, by the rules of Kafka 4.4.

    A write never lowers the start offset. A write with a lower one was decided on older state, so its number counts
    records that are complete already.
    """
    if wanted.start_offset > state.start_offset:
        state.start_offset, state.delivery_complete_count = wanted.start_offset, wanted.delivery_complete_count
    elif wanted.start_offset == state.start_offset:
        state.delivery_complete_count = max(wanted.delivery_complete_count, state.delivery_complete_count)


def _discard(index: dict[Name, set[ShareKey]], name: Name, key: ShareKey) -> None:
    keys = index[name]
    keys.discard(key)
    if not keys:
        del index[name]


def _fenced_state_epoch() -> ShareStateError:
    return ShareStateError(
        ErrorCode.FENCED_STATE_EPOCH,
        "The share coordinator rejected the request because the share-group state epoch did not match.",
    )
