"""All partition logs of a broker, over one journal.

Rules of this file: it knows which logs there are, not why: topics are created and deleted by whoever keeps the topics'
records, during recovery too. Batches of a topic that is not known when they are replayed belong to a deleted one: they
are skipped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.partition.reading import BatchSource, JournalSource
from pipeline_broker.log.partition.tail_cache import CACHE_BYTES_MAX, TailCache
from pipeline_broker.log.segments.policies import DEFAULT_POLICIES, FlushRules, LogPolicies
from pipeline_broker.records.batch import BatchHeader, read_header
from pipeline_broker.records.check import DEFAULT_RULES, Rules


@attrs.define
class LogTotals:
    """What some logs hold, or held when they were deleted; only of what is durable.

    Attributes:
        messages, size_bytes, batches: records, and their batches.
        duplicates: batches that came again and were not appended.
    """

    messages: int = 0
    size_bytes: int = 0
    batches: int = 0
    duplicates: int = 0

    def add(self, log: PartitionLog) -> None:
        """Add what a log holds."""
        self.messages += log.high_watermark
        self.size_bytes += log.appended_bytes
        self.batches += log.appended_batches
        self.duplicates += log.duplicates


ROLL_SEED_BYTES = 16
LOGS_PER_STEP = 256
"""Of those whose totals are summed: a quarter of a millisecond."""

#: Called for every batch replayed: its log, its header, and the batch, which must be copied to be kept.
OnReplayed = Callable[[PartitionLog, BatchHeader, memoryview], None]


class LogManager:
    """Topics and partitions -> logs.

    Args:
        journal: what they are over.
        cache_bytes_max: of batches that are kept in memory.
        archive: what takes over from the journal.
        randomness: where the jitter of their segments comes from, the system's unless given.

    Attributes:
        knows_all_topics: whether every record of a topic was taken over at the start; else what the archive holds of
            unknown partitions may be a topic's, and is kept.
        disk_space: as the journal said at the latest look of the upkeep; None before the first one, and where the disk
            does not tell.
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
        self._topics: dict[str, list[PartitionLog]] = {}
        self._by_id: dict[bytes, list[PartitionLog]] = {}  # the same lists
        self._by_key: dict[bytes, PartitionLog] = {}  # those that a replay has met
        self._leaving: deque[PartitionLog] = deque()
        self._deleted = LogTotals()
        self._roll_seed = (SystemRandom() if randomness is None else randomness).randbytes(ROLL_SEED_BYTES)

    def close(self) -> None:
        """Give the data directory up, with no file left open; see Journal."""
        self.journal.close()
        if self.archive is not None:
            self.archive.close()

    def __iter__(self) -> Iterator[PartitionLog]:
        return chain.from_iterable(self._topics.values())

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def find(self, topic: str, partition: int) -> PartitionLog | None:
        """The log, if there is one."""
        logs = self._topics.get(topic)
        return logs[partition] if logs is not None and 0 <= partition < len(logs) else None

    def find_by_key(self, key: bytes) -> PartitionLog | None:
        """The log whose entries have this key, if there is one."""
        topic_id, partition = split_key(key)
        logs = self._by_id.get(topic_id)
        return logs[partition] if logs is not None and 0 <= partition < len(logs) else None

    def partitions(self, topic: str) -> tuple[PartitionLog, ...]:
        """The logs of a topic by partition number; none for an unknown topic."""
        return tuple(self._topics.get(topic, ()))

    def create(
        self,
        topic: str,
        topic_id: bytes,
        partition_count: int,
        rules: Rules = DEFAULT_RULES,
        policies: LogPolicies = DEFAULT_POLICIES,
        made: Sequence[PartitionLog] = (),
    ) -> tuple[PartitionLog, ...]:
        """Create a topic's logs, or more of them when it has fewer than `partition_count`.

        Args:
            made: logs of partitions that follow each other, made by `make`, of which those are taken that are missing.
        """
        logs = self._topics.get(topic)
        if logs is None:
            logs = self._topics[topic] = self._by_id[topic_id] = []
        assert not logs or logs[0].topic_id == topic_id, "a topic keeps its id until it is deleted"
        if made and made[0].topic_id == topic_id and (first := made[0].partition) <= len(logs):
            logs.extend(made[len(logs) - first : partition_count - first])
        for partition in range(len(logs), partition_count):
            logs.append(self.make(topic, topic_id, partition, rules, policies))
        return tuple(logs)

    def make(self, topic: str, topic_id: bytes, partition: int, rules: Rules, policies: LogPolicies) -> PartitionLog:
        """A log for `create`, which nobody finds before that: so those of a large topic can be made in turns."""
        log = PartitionLog(topic, topic_id, partition, self.cache, self._sources, rules, policies)
        log.roll_seed = self._roll_seed + log.entry_key
        if self.archive is not None:
            archived = self.archive.archived_log(log.entry_key)
            if archived is not None:
                log.attach(*archived)
        return log

    def delete(self, topic: str) -> None:
        """Let nobody find a topic's logs; entries of theirs that are still on the way may arrive and harm nobody."""
        logs = self._topics.pop(topic, [])
        self._flush_changed(topic, None)
        if logs:
            del self._by_id[logs[0].topic_id]
            self._by_key.clear()
            self._leaving.extend(logs)

    @property
    def is_any_leaving(self) -> bool:
        """Whether `forget_some` has something to do."""
        return bool(self._leaving)

    def forget_some(self, count_max: int) -> list[PartitionLog]:
        """Forget logs that were deleted, and return them; to let go of very many at once takes long."""
        gone = [self._leaving.popleft() for _ in range(min(count_max, len(self._leaving)))]
        for log in gone:
            self._deleted.add(log)
        return gone

    def totals(self, left_out: tuple[str, bytes] | None = None) -> Steps[dict[tuple[str, bytes], LogTotals]]:
        """Sum the logs of each topic, by its name and id, in steps; deleted topics together have no name.

        Topics are those of the first step.

        Args:
            left_out: name and id of a topic that is left out.
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
            key = topic, logs[0].topic_id if logs else b""
            if key == left_out:
                continue
            of_topic = totals[key] = LogTotals()
            for log in logs:
                of_topic.add(log)
                if next(looked) % LOGS_PER_STEP == 0:
                    yield
        return totals

    def set_rules(self, topic: str, rules: Rules, policies: LogPolicies = DEFAULT_POLICIES) -> None:
        """Change what the topic accepts, and what becomes of its files, from now on."""
        for log in self._topics.get(topic, ()):
            log.rules, log.policies = rules, policies
        self._flush_changed(topic, policies.flush)

    @property
    def topics_synced_later(self) -> int:
        """How many topics have records that are synced later than the journal's `flush` says."""
        policy = self.journal.flush_policy
        return 0 if policy is None else len(policy.weaker)

    def _flush_changed(self, topic: str, rules: FlushRules | None) -> None:
        if self.journal.flush_policy is not None:
            self.journal.flush_policy.topic_changed(topic, rules)

    # What the archive asks and tells

    def archive_targets(self) -> dict[bytes, ArchiveTarget]:
        """What the archive must know of each log that there is."""
        return {
            log.entry_key: ArchiveTarget(
                log.folder,
                log.policies.roll,
                log.log_start_offset,
                log.policies.producer_expiration_ms,
                log.roll_seed,
            )
            for log in self
        }

    def show(self, edit: Edit) -> list[PartitionLog]:
        """An edit of the archive is durable: readers see what it holds now. Returns the logs whose start has risen."""
        assert self.archive is not None, "who has no archive has no edits of it"
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
        self, on_replayed: OnReplayed, now_ms: int, is_state: Callable[[PartitionLog], bool] = lambda _: False
    ) -> None:
        """Replay what the archive holds of state, then the journal.

        Args:
            on_replayed: may create and delete topics as it finds their records.
            now_ms: wall clock.
            is_state: whether a log's records must be replayed from its beginning.
        """
        logs = self._by_key
        replayed = skipped = 0
        archived_lsn = 0
        if self.archive is not None:
            archived_lsn = self.archive.lsn
            self._replay_archived(self.archive, on_replayed, is_state)
        for key, place, batch in self.journal.recover(archived_lsn):
            log = logs.get(key)
            if log is None:
                log = self.find_by_key(key)
                if log is None:
                    skipped += 1
                    continue
                logs[key] = log
            header = read_header(batch)
            log.replay(header, place, now_ms, batch)
            replayed += 1
            on_replayed(log, header, batch)
        logs.clear()
        self.batches_replayed, self.batches_skipped = replayed, skipped

    def _replay_archived(
        self, archive: Archive, on_replayed: OnReplayed, is_state: Callable[[PartitionLog], bool]
    ) -> None:
        """Topics come up while their records are replayed, so some logs are there only after others."""
        done: set[PartitionLog] = set()
        while waiting := [log for log in self if log not in done and is_state(log)]:
            for log in waiting:
                done.add(log)
                for header, batch in () if log.archived is None else archive.batches(log.archived):
                    on_replayed(log, header, batch)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for so long; returns how many."""
        return sum(log.producers.expire(now_ms, expiration_ms) for log in self)

    @staticmethod
    def on_durable(entries: list[JournalEntry]) -> None:
        """Make a completed commit's entries visible."""
        for entry in entries:
            entry.log.on_durable(entry)
