"""Builds a data directory with many partitions and much data in seconds, for `bench_recovery.py`.

Topics are created with the broker's own records, and the journal with its own writer. Archive segments have valid
checksums and indexes, but are sparse files: record values are zeros, which occupy no disk space.
"""

import os
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from pipeline_broker.broker.broker import Broker
from pipeline_broker.config.settings import load_settings
from pipeline_broker.files.file_system import File, FileSystem, SystemFileSystem, _SystemFile
from pipeline_broker.log.archive.archiver import Archiver
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.manifest import Edit, PartitionManifest
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.journal_port import Flush
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.state.topics import NewTopic

__all__ = ["LargeDirectory", "UnsyncedFileSystem", "append_commits", "build", "opened", "topic_names"]

BATCH_BYTES = 1 << 20
SEGMENT_BYTES = 1 << 30
HUGE_TOPIC = "huge"
COMMIT_TOPICS = 100  # created by one commit
_BASE_OFFSET = struct.Struct(">q")


@attrs.frozen
class LargeDirectory:
    """The size of a data directory.

    Attributes:
        path: its location.
        topics, partitions: number of topics, and of partitions per topic.
        size_bytes: size of all these partitions together.
        huge_bytes: size of one more partition, which has its own topic.
    """

    path: Path
    topics: int
    partitions: int
    size_bytes: int
    huge_bytes: int


def opened(path: Path, flush: Flush = "always", files: FileSystem | None = None) -> tuple[Journal, Broker]:
    config, _ = load_settings((), ())
    return open_broker(path, config, flush=flush, files=files)


class _UnsyncedFile(_SystemFile):
    def sync_data(self) -> None:
        pass


class UnsyncedFileSystem(SystemFileSystem):
    """A file system without syncs, which writes in seconds the commits that a syncing broker writes in hours."""

    def open(self, path: Path, *, create: bool = False) -> File:
        return _UnsyncedFile(os.open(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0), 0o644))


def topic_names(count: int) -> list[str]:
    return [f"topic-{number}" for number in range(count)]


def build(wanted: LargeDirectory) -> None:
    journal, broker = opened(wanted.path, files=UnsyncedFileSystem())
    try:
        create_topics(journal, broker, dict.fromkeys(topic_names(wanted.topics), wanted.partitions))
        create_topics(journal, broker, {HUGE_TOPIC: 1})
        sparse = SparseBatch()
        archive = wanted.path / "archive"
        batches = wanted.size_bytes // (wanted.topics * wanted.partitions) // BATCH_BYTES
        counts = {log: batches for log in broker.logs if log.topic.startswith("topic-")}
        counts[broker.logs.partitions(HUGE_TOPIC)[0]] = wanted.huge_bytes // BATCH_BYTES
        partitions = {
            log.entry_key: PartitionManifest(log.folder, 0, count, tuple(sparse.segments(archive, log.folder, count)))
            for log, count in counts.items()
        }
        assert broker.logs.archive is not None
        edit = Edit(broker.logs.archive.lsn, partitions)
        broker.logs.archive.commit(edit)
        broker.logs.show(edit)
        archive_journal(journal, broker)
    finally:
        journal.close()


def create_topics(journal: Journal, broker: Broker, topics: dict[str, int]) -> None:
    names = list(topics)
    for start in range(0, len(names), COMMIT_TOPICS):
        writes, entries = [], []
        for name in names[start : start + COMMIT_TOPICS]:
            writes.append(broker.topics.create(NewTopic(name=name, topic_id=os.urandom(16), partitions=topics[name])))
            entries.append(broker.append_metadata(writes[-1], now_ms()))
        journal.sync(journal.write(entries))
        broker.entries_durable(entries)
        for write in writes:
            broker.topic_durable(write)


def archive_journal(journal: Journal, broker: Broker) -> None:
    journal.seal()
    archive = broker.logs.archive
    assert archive is not None
    archiver = Archiver(archive, journal)
    while segments := archiver.next_round():
        number, edit = archiver.take_over(segments, broker.logs.archive_targets(), now_ms())
        broker.logs.show(edit)
        journal.recycle(number)


def append_commits(journal: Journal, logs: list[PartitionLog], batch: bytes, commits: int, per_commit: int) -> None:
    """Append commits of `per_commit` batches each, to the partitions in turn."""
    header, number = read_header(batch), 0
    for _ in range(commits):
        entries = []
        for _ in range(per_commit):
            log = logs[number % len(logs)]
            entry = log.append(header, batch, 0).entry
            assert entry is not None
            entries.append(entry)
            if header.producer_id >= 0:
                log.producers = ProducerStates()  # otherwise the repeated batch would be a duplicate
            number += 1
        journal.sync(journal.write(entries))


class SparseBatch:
    """A batch of one record with a value of zeros; only `head`, its first bytes, is written."""

    def __init__(self) -> None:
        overhead = len(build_batch([NewRecord(bytes(BATCH_BYTES // 2), timestamp=0)])) - BATCH_BYTES // 2
        batch = build_batch([NewRecord(bytes(BATCH_BYTES - overhead), timestamp=now_ms())], leader_epoch=0)
        self.timestamp = read_header(batch).max_timestamp
        self.size_bytes = len(batch)
        self.head = batch.rstrip(b"\0")

    def segments(self, archive: Path, folder: str, count: int) -> Iterator[SegmentInfo]:
        """Write the segments of a partition with `count` batches; all but the last one are sealed."""
        per_segment = SEGMENT_BYTES // self.size_bytes
        (archive / folder).mkdir()
        for base_offset in range(0, count, per_segment):
            stop = min(count, base_offset + per_segment)
            yield self._segment(archive, folder, range(base_offset, stop), is_sealed=stop < count)

    def _segment(self, archive: Path, folder: str, offsets: range, *, is_sealed: bool) -> SegmentInfo:
        builder = IndexBuilder(offsets.start)
        log, offset_index, time_index = (archive / name for name in file_names(folder, offsets.start))
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        for offset in offsets:
            os.pwrite(descriptor, _BASE_OFFSET.pack(offset) + self.head[_BASE_OFFSET.size :], builder.size_bytes)
            builder.add(offset, offset, self.size_bytes, self.timestamp)
        os.ftruncate(descriptor, builder.size_bytes)
        os.close(descriptor)
        if is_sealed:
            builder.seal()
        entries = builder.take()
        offset_index.write_bytes(entries.offset_entries)
        time_index.write_bytes(entries.time_entries)
        return SegmentInfo.written(builder, is_sealed=is_sealed, modified_ms=now_ms())


def forget_pages(paths: Iterable[Path]) -> None:
    """Drop files from the page cache."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
