"""Partition logs rebuilt from stored data, so readers see the same records as a broker's consumers.

Damaged data is refused, because a reader would not notice missing records; a torn tail is ignored. Entries that a
running broker has written but not synced are included, although a power cut could still remove them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pipeline_broker.files.file_system import ReadOnlyFileSystem
from pipeline_broker.inspect.entry_check import EntryCheck, NamedSegment
from pipeline_broker.inspect.errors import NoDataDirectoryError, StoredDataError
from pipeline_broker.inspect.findings import Damage, Finding
from pipeline_broker.inspect.mark_reader import MarkReader
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.inspect.stored_place import (
    StoredPlace,
    brokers_of,
    check_is_stored,
    journal_bytes,
    journal_of,
    open_stored_archive,
)
from pipeline_broker.inspect.topic_names import TopicNames
from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.archive.manifest import Manifest, PartitionManifest
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.errors import DamagedSegment, JournalCorrupt, SegmentGone
from pipeline_broker.log.journal.frame import StoredEntry, entry_key, split_key
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.partition.reading import JournalSource
from pipeline_broker.log.partition.tail_cache import TailCache
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.records.batch import BatchHeader, read_header
from pipeline_broker.records.errors import RecordError
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.leadership.records import PartitionKey, read_partition
from pipeline_broker.state.log_starts import LogStarts
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID, RecordType, Topic, record_type

__all__ = ["StoredFiles", "read_logs"]

READS_MAX = 3
"""Reads of a changing directory before it counts as damaged."""
NOTHING = Selection(topic="")  # no topic has this name, so no entry is reported


class StoredFiles:
    """The stored batches of a broker.

    Args:
        stored: a data directory, or a node in a store.

    Attributes:
        place_at: returns the place, as in `JournalBytes`, of a position in a segment or slot of the journal.

    Raises:
        NoDataDirectoryError: the store, or the file that names it, cannot be read.
    """

    def __init__(self, stored: StoredPlace) -> None:
        files = ReadOnlyFileSystem()
        if isinstance(stored, Path):
            files.confine(stored)
        archive = open_stored_archive(files, stored)
        archive.prepare()
        self._archive = SegmentReader(archive.store)
        journal, self.place_at = journal_bytes(files, stored)
        self._sources = (JournalSource(journal),)

    def empty_log(self, topic: str, topic_id: bytes, partition: int) -> PartitionLog:
        return PartitionLog(topic, topic_id, partition, TailCache(0), self._sources)

    def archived(self, manifest: PartitionManifest) -> ArchivedLog:
        return ArchivedLog(self._archive, manifest)

    def archived_batches(self, manifest: PartitionManifest) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield all archived batches of a partition, each valid until the next one.

        Raises:
            DamagedSegment, SegmentGone: a segment is damaged, or was deleted or replaced.
        """
        for segment in manifest.segments:
            yield from self._archive.batches(manifest.folder, segment)


def read_logs(stored: StoredPlace, wants: Callable[[str], bool]) -> dict[PartitionLog, StoredPlace]:
    """Return the logs of the existing topics with a wanted name, sorted by topic and partition.

    Args:
        stored: the data of a broker, or the directory of a cluster.

    Returns:
        the logs, each with the data of the broker that leads its partition.

    Raises:
        NoDataDirectoryError: `stored` holds no broker's data, or cannot be read.
        StoredDataError: the data is damaged, also when it is read again.
    """
    brokers = brokers_of(ReadOnlyFileSystem(), stored)
    if not brokers:
        return dict.fromkeys(_read(stored, wants).logs(), stored)
    found: dict[PartitionLog, StoredPlace] = {}
    controller = None
    for node_id, place in brokers.items():
        replay = _read(place, wants, controller)
        controller = controller or replay
        found |= dict.fromkeys(replay.logs(node_id), place)
    return {log: found[log] for log in sorted(found, key=lambda log: (log.topic, log.partition))}


def _read(stored: StoredPlace, wants: Callable[[str], bool], controller: _Replay | None = None) -> _Replay:
    files = ReadOnlyFileSystem()
    check_is_stored(files, stored)
    for left in reversed(range(READS_MAX)):
        mark = MarkReader(files, stored) if isinstance(stored, Path) else None
        replay = _Replay(stored, wants, controller)
        manifests = open_stored_archive(files, stored).manifests
        journal = journal_of(files, stored, manifests, replay)
        try:
            _refuse_damage(manifests.findings())
            _refuse_damage(journal.findings())
            if mark is not None:
                _refuse_damage(mark.findings(journal, manifests))
        except (DamagedSegment, JournalCorrupt, SegmentGone, StoredDataError) as error:
            # The directory may have changed during the read, so only repeated damage is reported.
            if not left:
                raise StoredDataError(f"{stored}: {error}") from None
        except PermissionError as error:
            raise NoDataDirectoryError(f"{error.filename} cannot be read: {error.strerror}") from None
        else:
            return replay
    raise AssertionError("the last read has ended in one way or another")


def _refuse_damage(findings: Iterable[Finding]) -> None:
    for finding in findings:
        if isinstance(finding, Damage):
            raise StoredDataError(f"{finding.file} is damaged at byte {finding.position}: {finding.reason}")


class _Replay(EntryCheck):
    """The check of the journal's entries, which builds the logs of those that are not archived.

    Args:
        controller: the controller of the broker's cluster, which knows topics and leaders; None if this broker does.
    """

    def __init__(self, stored: StoredPlace, wants: Callable[[str], bool], controller: _Replay | None) -> None:
        self.topics: TopicNames = TopicNames() if controller is None else controller.topics
        self.leaders: dict[PartitionKey, int] = {} if controller is None else controller.leaders
        super().__init__(self.topics, NOTHING)
        self._files = StoredFiles(stored)
        self._wants = wants
        self._archived: Manifest = Manifest()
        self._logs: dict[bytes, PartitionLog] = {}
        self._log_starts = LogStarts()

    def begin(self, manifest: Manifest | None) -> None:
        if manifest is None:
            raise StoredDataError("the manifest of the archive cannot be read")
        super().begin(manifest)
        self._archived = manifest
        self._logs.clear()
        metadata = manifest.partitions.get(entry_key(METADATA_TOPIC_ID, 0))
        if metadata is not None:
            for header, batch in self._files.archived_batches(metadata):
                self.topics.note_batch(METADATA_TOPIC_ID, header, batch)
                self._note(header, batch)

    def findings(self, segment: NamedSegment, lsn: int, entry: StoredEntry) -> Iterator[Finding]:
        yield from super().findings(segment, lsn, entry)
        # The archive serves these entries.
        if lsn < self._archived.lsn:
            return
        header = read_header(entry.batch)  # readable: the consumer of the findings stops at damage
        topic_id, partition = split_key(entry.key)
        if topic_id == METADATA_TOPIC_ID:
            self._note(header, entry.batch)
            return
        name = self.topics.find(topic_id)
        if name is not None and self._wants(name):
            log = self._log(Topic(name, topic_id, 0), partition)
            log.replay(header, self._files.place_at(segment.number, entry.place), 0, entry.batch)

    def _note(self, header: BatchHeader, batch: memoryview) -> None:
        try:
            for record in iterate_records(batch, header):
                key = record.key or b""
                self._log_starts.replay(key, record.value)
                if record_type(key) == RecordType.PARTITION:
                    partition, leadership = read_partition(key, record.value)
                    if leadership is not None:
                        self.leaders[partition] = leadership.leader
        except (CorruptStateRecordError, RecordError):
            return  # a startup sets such records aside, too

    def _log(self, topic: Topic, partition: int) -> PartitionLog:
        key = entry_key(topic.topic_id, partition)
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = self._files.empty_log(topic.name, topic.topic_id, partition)
            manifest = self._archived.partitions.get(key)
            if manifest is not None:
                producers = ProducerStates.restored(manifest.producers, manifest.open_transactions)
                log.attach(self._files.archived(manifest), producers)
        return log

    def logs(self, leader: int | None = None) -> list[PartitionLog]:
        """Return the logs of the topics that exist at the end of the journal: of all partitions, or of one leader."""
        found = []
        for topic in sorted(self.topics.live_topics(), key=lambda topic: topic.name):
            if self._wants(topic.name):
                for partition in range(topic.partitions):
                    if leader is not None and self.leaders.get(PartitionKey(topic.topic_id, partition)) != leader:
                        continue
                    log = self._log(topic, partition)
                    log.raise_log_start(self._log_starts.get(topic.topic_id, partition))
                    found.append(log)
        return found
