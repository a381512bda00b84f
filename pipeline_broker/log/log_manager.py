"""All partition logs of a broker, as in Kafka's `LogManager`: creation, deletion, recovery and totals.

The state of topics decides which logs exist, also during recovery: replayed topic records call `create` and `delete`.

Counterpart in Kafka: `LogManager`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, count
from random import Random, SystemRandom

import attrs

from pipeline_broker.base.steps import Steps
from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.archive.archiver import ArchiveTarget
from pipeline_broker.log.archive.manifest import Edit
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.frame import split_key
from pipeline_broker.log.journal.journal_port import JournalPort
from pipeline_broker.log.leader_epochs import FIRST_EPOCH
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.partition.reading import BatchSource, JournalSource
from pipeline_broker.log.partition.tail_cache import CACHE_BYTES_MAX, TailCache
from pipeline_broker.log.segments.policies import DEFAULT_POLICIES, FlushRules, LogPolicies
from pipeline_broker.records.batch import BatchHeader, read_header
from pipeline_broker.records.check import DEFAULT_RULES, Rules


@attrs.define
class LogTotals:
    """Counts of durable records and batches, summed over logs.

    Attributes:
        messages: records, including deleted ones.
        size_bytes, batches: became durable since startup, including replayed ones.
        duplicates: batches that a producer sent again and that were not appended.
    """

    messages: int = 0
    size_bytes: int = 0
    batches: int = 0
    duplicates: int = 0

    def add(self, log: PartitionLog) -> None:
        self.messages += log.high_watermark
        self.size_bytes += log.appended_bytes
        self.batches += log.appended_batches
        self.duplicates += log.duplicates


ROLL_SEED_BYTES = 16
LOGS_PER_STEP = 256  # in `totals`; takes a quarter of a millisecond

#: Called with the log, the header and the bytes of each replayed batch. The bytes are valid during the call only.
OnReplayed = Callable[[PartitionLog, BatchHeader, memoryview], None]


class LogManager:
    """The partition logs of a broker, by topic, by topic id and by journal key.

    Args:
        journal: the journal that all logs share.
        cache_bytes_max: bytes of recent batches that the tail cache keeps in memory.
        archive: the archive that takes over complete journal segments; None for a broker without one.
        randomness: source of the seed for `segment.jitter.ms`; the system's randomness by default.

    Attributes:
        knows_all_topics: False if recovery could not read some topic record. A partition that only the archive has may
            then belong to that topic, so its files are kept.
        disk_space: total and free bytes of the disk at the last check of the maintenance; None if unknown.
        batches_replayed, batches_skipped: counts of the last recovery. Skipped batches belong to deleted topics.
    """

    def __init__(
        self,
        journal: JournalPort,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        archive: Archive | None = None,
        randomness: Random | None = None,
    ) -> None:
        self.journal = journal
        self.archive = archive
        self.cache = TailCache(cache_bytes_max)
        self.knows_all_topics = True
        self.disk_space: tuple[int, int] | None = None
        self.batches_replayed = 0
        self.batches_skipped = 0
        self._sources: tuple[BatchSource, ...] = (self.cache, JournalSource(journal))
        # By topic and partition. Topics without a partition on this broker are missing.
        self._topics: dict[str, dict[int, PartitionLog]] = {}
        self._by_id: dict[bytes, dict[int, PartitionLog]] = {}  # the same inner objects as in `_topics`
        self._by_key: dict[bytes, PartitionLog] = {}  # a cache of `find_by_key` during recovery, empty otherwise
        self._leaving: deque[PartitionLog] = deque()
        self._given_up: dict[bytes, PartitionLog] = {}  # by key; archived until another broker has their records
        self._attached: deque[PartitionLog] = deque()  # logs with archived records that are not replayed yet
        self._deleted = LogTotals()
        self._roll_seed = (SystemRandom() if randomness is None else randomness).randbytes(ROLL_SEED_BYTES)

    def close(self) -> None:
        self.journal.close()
        if self.archive is not None:
            self.archive.close()

    def __iter__(self) -> Iterator[PartitionLog]:
        return chain.from_iterable(logs.values() for logs in self._topics.values())

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def find(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition; None if the partition is unknown or on another broker."""
        logs = self._topics.get(topic)
        return None if logs is None else logs.get(partition)

    def leader_epoch(self, topic: str, partition: int) -> int:
        log = self.find(topic, partition)
        return FIRST_EPOCH.latest if log is None else log.leader_epoch

    def find_by_key(self, key: bytes) -> PartitionLog | None:
        """Return the log with this journal key (see `frame.entry_key`); None if it has no log on this broker."""
        topic_id, partition = split_key(key)
        logs = self._by_id.get(topic_id)
        return None if logs is None else logs.get(partition)

    def partitions(self, topic: str) -> tuple[PartitionLog, ...]:
        """Return the logs of a topic on this broker in the order of their numbers."""
        return tuple(self._topics.get(topic, {}).values())

    def create(
        self,
        topic: str,
        topic_id: bytes,
        partitions: int | Collection[int],
        rules: Rules = DEFAULT_RULES,
        policies: LogPolicies = DEFAULT_POLICIES,
        made: Iterable[PartitionLog] = (),
    ) -> tuple[PartitionLog, ...]:
        """Create the missing logs of a topic and return all of its logs on this broker.

        Args:
            topic_id: 16 bytes.
            partitions: numbers of the partitions that should have logs, or of the first ones. Existing logs are never
                removed.
            rules: record validation of new logs.
            policies: segment, retention and flush settings of new logs.
            made: logs from `make`, used where their partitions are missing. Logs of another topic id are ignored.
        """
        known = self._topics.get(topic, {})
        assert not known or known is self._by_id.get(topic_id), "a topic keeps its id until it is deleted"
        wanted = range(partitions) if isinstance(partitions, int) else partitions
        missing = sorted(partition for partition in wanted if partition not in known)
        if missing:
            # Added in place, because partitions may be opened one after the other.
            is_in_order = missing[0] > next(reversed(known), -1)
            ready = {log.partition: log for log in made if log.topic_id == topic_id}
            for partition in missing:
                known[partition] = ready.get(partition) or self.make(topic, topic_id, partition, rules, policies)
            self._topics[topic] = self._by_id[topic_id] = known if is_in_order else dict(sorted(known.items()))
        return self.partitions(topic)

    def make(self, topic: str, topic_id: bytes, partition: int, rules: Rules, policies: LogPolicies) -> PartitionLog:
        """Return a log for a later `create`; no lookup finds it before that.

        Archived records of the partition are attached. Callers prepare large topics this way, some logs per turn of the
        event loop.
        """
        log = PartitionLog(topic, topic_id, partition, self.cache, self._sources, rules, policies, self._roll_seed)
        if self.archive is not None:
            archived = self.archive.archived_log(log.entry_key)
            if archived is not None:
                log.attach(*archived)
                self._attached.append(log)
        return log

    def delete(self, topic: str) -> None:
        """Remove a topic's logs from all lookups. Commits in flight may still complete on them."""
        logs = self._topics.pop(topic, {}).values()
        self._flush_changed(topic, None)
        for log in logs:
            self._by_id.pop(log.topic_id, None)
        self._by_key.clear()
        self._leaving.extend(logs)

    def give_up(self, topic: str, partition: int) -> PartitionLog | None:
        """Remove the log of a partition from all lookups, because another broker will lead it.

        Commits in flight complete. The log is archived until `forget_given_up`.
        """
        logs = self._topics.get(topic, {})
        log = logs.pop(partition, None)
        if log is None:
            return None
        if not logs:
            del self._topics[topic], self._by_id[log.topic_id]
        self._by_key.pop(log.entry_key, None)
        log.is_given_up = True
        self._given_up[log.entry_key] = log
        return log

    def forget_given_up(self, keys: Iterable[bytes]) -> None:
        self._leaving.extend(self._given_up.pop(key) for key in keys if key in self._given_up)

    @property
    def is_any_leaving(self) -> bool:
        return bool(self._leaving)

    def forget_some(self, count_max: int) -> list[PartitionLog]:
        """Release up to `count_max` deleted logs and return them; the totals keep their counts.

        Releasing the memory of very many logs in one turn would block the event loop.
        """
        gone = [self._leaving.popleft() for _ in range(min(count_max, len(self._leaving)))]
        for log in gone:
            self._deleted.add(log)
        return gone

    def totals(self, left_out: tuple[str, bytes] | None = None) -> Steps[dict[tuple[str, bytes], LogTotals]]:
        """Sum the logs of each topic, in steps, and return the sums by topic name and id.

        Topics are those that exist at the first step. The key `("", b"")` has the sum of deleted topics.

        Args:
            left_out: name and id of a topic to leave out.
        """
        deleted = attrs.evolve(self._deleted)
        leaving, topics = list(self._leaving), list(self._topics.items())
        totals = {("", b""): deleted}
        looked = count(1)
        for log in leaving:
            deleted.add(log)
            if next(looked) % LOGS_PER_STEP == 0:
                yield
        for topic, logs in topics:
            key = topic, next(iter(logs.values())).topic_id
            if key == left_out:
                continue
            of_topic = totals[key] = LogTotals()
            for log in tuple(logs.values()):  # the topic may get more partitions between two steps
                of_topic.add(log)
                if next(looked) % LOGS_PER_STEP == 0:
                    yield
        return totals

    def set_rules(self, topic: str, rules: Rules, policies: LogPolicies = DEFAULT_POLICIES) -> None:
        for log in self.partitions(topic):
            log.rules, log.policies = rules, policies
        self._flush_changed(topic, policies.flush)

    @property
    def topics_synced_later(self) -> int:
        """The number of topics with a weaker flush policy than the journal's default."""
        policy = self.journal.flush_policy
        return 0 if policy is None else len(policy.weaker)

    def _flush_changed(self, topic: str, rules: FlushRules | None) -> None:
        if self.journal.flush_policy is not None:
            self.journal.flush_policy.topic_changed(topic, rules)

    # The archive's view of the logs

    def archive_targets(self) -> dict[bytes, ArchiveTarget]:
        return {
            log.entry_key: ArchiveTarget(
                log.folder,
                log.policies.roll,
                log.log_start_offset,
                log.policies.producer_expiration_ms,
                log.roll_seed,
                # A later epoch would name offsets that a power cut can still free.
                log.epochs.until(log.high_watermark),
            )
            for log in chain(self._given_up.values(), self)
        }

    def show(self, edit: Edit) -> list[PartitionLog]:
        """Apply a durable edit of the archive's manifest, so that readers see its segments.

        Returns:
            the logs whose log start offset the edit raised.
        """
        assert self.archive is not None, "edits exist only with an archive"
        raised = []
        for key, manifest in edit.partitions.items():
            log = self.find_by_key(key)
            if log is not None and manifest is not None:
                start = log.log_start_offset
                log.on_archived(ArchivedLog(self.archive.reader, manifest))
                if log.log_start_offset > start:
                    raised.append(log)
        return raised

    def recover(
        self,
        on_replayed: OnReplayed,
        now_ms: int,
        is_state: Callable[[PartitionLog], bool] = lambda _: False,
        knows_all_topics: Callable[[], bool] = lambda: True,
    ) -> None:
        """Replay archived state records, then the journal. Sets the counts of replayed and skipped batches.

        Args:
            on_replayed: called for each batch. It may create and delete topics as it finds their records.
            now_ms: wall-clock time.
            is_state: returns whether the log's archived records must be replayed from its beginning.
            knows_all_topics: returns, after the replay, whether all topic records could be read.

        Raises:
            JournalCorrupt: durable records of the journal cannot be read.
            DamagedSegment: archived state records cannot be read.
        """
        logs = self._by_key
        replayed = skipped = 0
        archived_lsn = 0
        if self.archive is not None:
            archived_lsn = self.archive.lsn
            self.replay_attached(on_replayed, is_state)
        for key, place, batch in self.journal.recover(archived_lsn):
            log = logs.get(key)
            if log is None:
                log = self.find_by_key(key)
                if log is None:
                    # The records that created topics are replayed too, so an unknown key belongs to a topic deleted
                    # later.
                    skipped += 1
                    continue
                logs[key] = log
            header = read_header(batch)
            # Before the callback, which may delete the log.
            log.replay(header, place, now_ms, batch)
            replayed += 1
            on_replayed(log, header, batch)
            if self._attached:  # the batch made this broker the leader of a partition that it got with its records
                self.replay_attached(on_replayed, is_state)
        logs.clear()
        self.batches_replayed, self.batches_skipped = replayed, skipped
        self.knows_all_topics = knows_all_topics()

    def replay_attached(self, on_replayed: OnReplayed, is_state: Callable[[PartitionLog], bool]) -> None:
        """Replay the archived records of new state logs. Records of one may create further ones, or delete some.

        Raises:
            DamagedSegment: archived records cannot be read.
        """
        while self._attached:
            log = self._attached.popleft()
            if self.find(log.topic, log.partition) is log and is_state(log):
                assert self.archive is not None, "it has records of the log"
                for header, batch in () if log.archived is None else self.archive.batches(log.archived):
                    on_replayed(log, header, batch)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without an open transaction that were silent for `expiration_ms`; return their number."""
        return sum(log.producers.expire(now_ms, expiration_ms) for log in self)

    @staticmethod
    def on_durable(entries: list[JournalEntry]) -> None:
        for entry in entries:
            entry.log.on_durable(entry)
