"""The share coordinator of a broker: share partitions and sessions, and their records in `__share_group_state`.

Counterpart in Kafka: `SharePartitionManager`, `SharePartition`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import attrs

from pipeline_broker.broker.appended import Appended
from pipeline_broker.broker.coordinator import InternalTopic, append_records
from pipeline_broker.broker.dead_letters import DeadLetters, has_room
from pipeline_broker.broker.latest_time import LatestTime
from pipeline_broker.broker.share_ports import SharePorts
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.group_settings import ShareGroupSettings
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.state.deadlines import Deadlines
from pipeline_broker.state.epochs import EPOCH_MAX
from pipeline_broker.state.metadata_records import Topic
from pipeline_broker.state.outcome import Write
from pipeline_broker.state.share_coordinator.records import ShareKey
from pipeline_broker.state.share_coordinator.share_states import (
    NO_EPOCH,
    UNINITIALIZED,
    ShareState,
    ShareStates,
    StateWrite,
)
from pipeline_broker.state.share_partitions.messages import StateChange
from pipeline_broker.state.share_partitions.share_partition import NEVER_MS, SharePartition
from pipeline_broker.state.share_partitions.share_sessions import ShareSession, ShareSessions

__all__ = ["ActivePartition", "SharePartitionManager"]

# As Kafka's `share.coordinator.state.topic.prune.interval.ms`.
PRUNE_INTERVAL_MS = 300_000
# Fewer records are not deleted: each deletion writes a record itself.
PRUNED_RECORDS_MIN = 1_000
PRUNE = "prune"


@attrs.define(eq=False)
class ActivePartition:
    """A share partition in memory.

    Attributes:
        key: group, topic and partition.
        partition: state machine.
        is_reading: True while a fetch reads from disk. Other fetches wait, since it may acquire the records that it
            reads.
    """

    key: ShareKey
    partition: SharePartition
    log: PartitionLog
    is_reading: bool = False


class SharePartitionManager:
    """All share partitions and share sessions of a broker.

    A share partition is loaded on the first fetch. It is dropped with the last session of its group, after which no
    record is acquired and the durable state is complete.

    Changes are appended at once, in the order of the decisions. `Appended` collects the entries for callers whose
    answers must wait for them.

    Args:
        topic: `__share_group_state`.
        ports: callbacks to the broker.
        dead_letters: dead-letter queues of the groups.

    Attributes:
        config: the current configuration.
        states: state of all share partitions, as in the records.
        sessions: sessions of members.
    """

    def __init__(
        self, config: BrokerConfig, topic: InternalTopic, ports: SharePorts, dead_letters: DeadLetters
    ) -> None:
        self._topic = topic
        self._ports = ports
        self._dead_letters = dead_letters
        self.config = config
        self.states = ShareStates(config.share_coordinator_snapshot_update_records_per_snapshot)
        self.sessions = ShareSessions(config.group_share_max_share_sessions, config.pipeline_fetch_session_partitions)
        self._active: dict[ShareKey, ActivePartition] = {}
        self._deadlines: Deadlines[ShareKey | str] = Deadlines()
        self.time = LatestTime()

    def __len__(self) -> int:
        return len(self._active)

    def settings(self, group_id: str) -> ShareGroupSettings:
        return ShareGroupSettings.of(self.config, self._ports.configs_of(group_id))

    # Share partitions

    def find(self, key: ShareKey) -> ActivePartition | None:
        return self._active.get(key)

    def start_offset(self, key: ShareKey) -> int | None:
        """Return the start offset of a share partition; UNINITIALIZED before its first fetch, None without state."""
        state = self.states.find(key)
        return None if state is None else state.start_offset

    def load(self, key: ShareKey, log: PartitionLog, start_offset: int) -> ActivePartition:
        """Load a share partition, which must have a state.

        Args:
            key: group, topic and partition.
            start_offset: start offset if the share partition was never fetched from.
        """
        state = self.states.find(key)
        assert state is not None, "callers check `start_offset` first"
        # The start offset counts only on the first fetch, for which `share.auto.offset.reset` decides.
        if state.start_offset != UNINITIALIZED:
            start_offset = state.start_offset
        active = ActivePartition(key, SharePartition(start_offset, self.settings(key.group_id), state.batches), log)
        self._active[key] = active
        return active

    def refresh_settings(self, active: ActivePartition) -> ShareGroupSettings:
        active.partition.settings = self.settings(active.key.group_id)
        return active.partition.settings

    def locked(self, active: ActivePartition) -> None:
        """Schedule the next expiration of locks, after records were acquired or renewed."""
        if active.partition.next_lock_ms < NEVER_MS:
            self._set_deadline(active.key, active.partition.next_lock_ms)

    def released(self, key: ShareKey) -> None:
        """Answer the fetches that wait for a share partition: records may be available again."""
        self._ports.fetches.wake(key)

    def drop(self, keys: Iterable[ShareKey], appended: Appended) -> None:
        """Drop share partitions from memory. Their waiting fetches are answered once `appended` is durable."""
        for key in keys:
            if self._active.pop(key, None) is not None:
                self._deadlines.cancel(key)
                appended.then(functools.partial(self.released, key))

    # Records

    def append(self, writes: Iterable[Write], appended: Appended, now_ms: int) -> None:
        """Append records, in one batch for each partition of the topic. Do nothing if the topic does not exist.

        Args:
            writes: writes of one record each.
            appended: receives the entries.
            now_ms: wall clock.
        """
        together: dict[PartitionLog, list[Write]] = {}
        for write in writes:
            log = self._topic.log_of(write.subject)
            if log is not None:
                together.setdefault(log, []).append(write)
        for log, of_partition in together.items():
            entry = append_records(log, [record for write in of_partition for record in write.records], now_ms)
            for offset, write in enumerate(of_partition, entry.base_offset):
                # The offset is needed to find the records that a snapshot makes redundant.
                self.states.appended(write, offset)
            appended.add(entry, functools.partial(self.states.durable, of_partition))
        if together and PRUNE not in self._deadlines:
            self._set_deadline(PRUNE, now_ms + PRUNE_INTERVAL_MS)

    def append_change(
        self, active: ActivePartition, change: StateChange | None, appended: Appended, now_ms: int
    ) -> None:
        state = self.states.find(active.key)
        if change is None or state is None:
            return
        if change.undelivered:
            prefix = self.config.errors_deadletterqueue_topic_name_prefix
            self._dead_letters.append(active.key, change.undelivered, prefix, appended, now_ms)
        # No epoch check is needed: a new epoch drops the share partition first.
        wanted = StateWrite(
            NO_EPOCH, state.leader_epoch, change.start_offset, change.delivery_complete_count, change.batches
        )
        self.append([self.states.write(active.key, wanted, now_ms)], appended, now_ms)
        appended.then(lambda: self.released(active.key))

    def append_start(self, active: ActivePartition, appended: Appended, now_ms: int) -> None:
        """Append the start offset of a share partition, so that it starts there after a restart, too."""
        wanted = StateWrite(NO_EPOCH, NO_EPOCH, active.partition.start_offset, 0)
        self.append([self.states.write(active.key, wanted, now_ms)], appended, now_ms)

    def submit(self, appended: Appended, then: Callable[[], None] | None = None) -> None:
        """Commit entries that no request waits for, then call `then`; call it at once without entries."""

        def durable() -> None:
            appended.durable()
            if then is not None:
                then()

        if appended.entries:
            self._ports.submit(appended.entries, durable)
        else:
            durable()

    def initialize(self, keys: Iterable[tuple[ShareKey, int]], appended: Appended, now_ms: int) -> None:
        """Create the state of share partitions.

        Args:
            keys: share partitions with their epochs. A share partition that has state gets its next epoch, if higher.
            appended: receives the entries.
            now_ms: wall clock.
        """
        writes = []
        for key, epoch in keys:
            state = self.states.find(key)
            if state is not None:
                epoch = max(epoch, _later_epoch(state))
            self.drop([key], appended)
            writes.append(self.states.initialize(key, epoch, UNINITIALIZED, now_ms))
        self.append(writes, appended, now_ms)

    def set_start(self, key: ShareKey, start_offset: int, appended: Appended, now_ms: int) -> None:
        """Set the start offset of a share partition, which gets a state if it has none.

        All its acquired records are released.
        """
        state = self.states.find(key)
        epoch = 0 if state is None else _later_epoch(state)
        self.drop([key], appended)
        self.append([self.states.initialize(key, epoch, start_offset, now_ms)], appended, now_ms)

    def delete(self, keys: Sequence[ShareKey], appended: Appended, now_ms: int) -> None:
        self.drop(keys, appended)
        self.append(self.states.delete(keys), appended, now_ms)

    def forget_group(self, group_id: str, appended: Appended, now_ms: int) -> None:
        self.delete(self.states.keys_of_group(group_id), appended, now_ms)

    # Sessions

    def close_session(self, session: ShareSession, appended: Appended, now_ms: int) -> None:
        """Close a session, and release the records that its member has acquired.

        The last session of a group drops the share partitions of the group from memory.
        """
        self.sessions.remove(session.group_id, session.member_id)
        for topic_id, partition in session.partitions:
            if not has_room(appended):
                break  # the locks of the other partitions expire
            self.release(ShareKey(session.group_id, topic_id, partition), session.member_id, appended, now_ms)
        if not self.sessions.has_members(session.group_id):
            self.drop([key for key in self._active if key.group_id == session.group_id], appended)

    def release(self, key: ShareKey, member_id: str, appended: Appended, now_ms: int) -> None:
        active = self._active.get(key)
        if active is not None:
            self.append_change(active, active.partition.release(member_id), appended, now_ms)

    def connection_closed(self, connection: object) -> None:
        appended = Appended()
        for session in self.sessions.of_connection(connection):
            self.close_session(session, appended, self.time.now_ms)
        self.submit(appended)

    # The broker

    def topic_deleted(self, topic: Topic) -> None:
        appended = Appended()
        self.delete(self.states.keys_of_topic(topic.topic_id), appended, self.time.now_ms)
        self.submit(appended)

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def advance(self, now_ms: int) -> None:
        """Expire the locks of acquired records, and delete redundant records."""
        now_ms = self.time(now_ms)
        appended = Appended()
        for due in self._deadlines.pop_due(now_ms):
            if isinstance(due, str):
                # Snapshots must be durable before the records that they replace are deleted.
                self.submit(appended)
                appended = Appended()
                self._prune(appended, now_ms)
                continue
            active = self._active.get(due)
            if active is None:
                continue
            if not has_room(appended):
                self._set_deadline(due, now_ms)
                break  # the timer wakes again at once, after other tasks
            self.refresh_settings(active)
            change = active.partition.expire_locks(now_ms)
            self.locked(active)
            self.append_change(active, change, appended, now_ms)
        self.submit(appended)

    def _set_deadline(self, key: ShareKey | str, due_ms: int) -> None:
        next_ms = self._deadlines.next_ms()
        self._deadlines.set(key, due_ms)
        # The timer reads all deadlines when it wakes, so that only an earlier one must wake it.
        if next_ms is None or due_ms < next_ms:
            self._ports.wake_timer()

    def _prune(self, appended: Appended, now_ms: int) -> None:
        """Delete records before the oldest snapshot, and renew the snapshots that prevent most deletions."""
        keys_at: dict[int, list[ShareKey]] = {}
        logs = self._topic.logs
        for key in self.states.all():
            keys_at.setdefault(self._topic.partition_of(self.states.subject(key)), []).append(key)
        for log in logs:
            keys = keys_at.get(log.partition, ())
            redundant = self.states.redundant_before(keys, log.high_watermark)
            if redundant - log.log_start_offset >= PRUNED_RECORDS_MIN:
                self._ports.raise_log_start(log, redundant, now_ms)
            renewed_before = log.high_watermark - PRUNED_RECORDS_MIN
            for key in keys:
                state = self.states.find(key)
                # Records after the oldest snapshot cannot be deleted, so an idle share partition would keep those of
                # all others.
                if state is not None and 0 <= state.snapshot_offset < renewed_before:
                    self.append([self.states.snapshot(key, now_ms)], appended, now_ms)
        if any(log.high_watermark > log.log_start_offset for log in logs):
            self._set_deadline(PRUNE, now_ms + PRUNE_INTERVAL_MS)


def _later_epoch(state: ShareState) -> int:
    return min(state.state_epoch + 1, EPOCH_MAX)  # an epoch never falls: the highest one is kept
