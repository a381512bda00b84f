"""A start with many partitions and a huge log costs what they are, not what they hold: counted, not timed.

`benchmarks/bench_recovery.py` measures the same with 10,000 partitions and 120 GB.
"""

import os
import struct
import tracemalloc

import attrs
import pytest

from pipeline_broker.config.settings import load_settings
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.archiver import Archiver
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.manifest import Edit, PartitionManifest
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.node.errors import StartError
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.state.topics import NewTopic
from tests.archiving import archive_one

pytestmark = [pytest.mark.faults]
TOPICS, PARTITIONS = 100, 10
BATCH_BYTES = 1 << 20
HUGE_BATCHES = 1000  # of one segment: a gigabyte, most of it a hole
MEMORY_BYTES_MAX = 4096  # of a partition: its log, what the archive has of it
OPENED_MAX = 12  # files: mark, manifest, the journal's segment, those of the log of metadata
READ_BYTES_MAX = 1 << 20  # beside the manifest


@attrs.define
class Counted:
    """A file system that counts, and syncs nothing."""

    opened: list = attrs.Factory(list)
    read_bytes: int = 0


class CountingFileSystem(SystemFileSystem):
    def __init__(self):
        super().__init__()
        self.counted = Counted()

    def open(self, path, *, create=False):
        self.counted.opened.append(path)
        return CountingFile(super().open(path, create=create), self)

    def sync_directory(self, path):
        pass


class CountingFile:
    def __init__(self, file, system):
        self._file = file
        self._system = system

    def __getattr__(self, name):
        return getattr(self._file, name)

    def read(self, size_bytes, position):
        data = self._file.read(size_bytes, position)
        self._system.counted.read_bytes += len(data)
        return data

    def sync_data(self):
        pass


def opened(data, files):
    return open_broker(data, load_settings((), ())[0], files=files)


def create_topics(journal, broker, partitions):
    writes = [
        broker.topics.create(NewTopic(name=name, topic_id=os.urandom(16), partitions=count))
        for name, count in partitions.items()
    ]
    entries = [broker.append_metadata(write, 0) for write in writes]
    journal.sync(journal.write(entries))
    broker.entries_durable(entries)
    for write in writes:
        broker.topic_durable(write)


def segment_of(batches):
    """What a manifest says of one segment of batches of a megabyte; the beginning of such a batch; the indexes."""
    overhead = len(build_batch([NewRecord(bytes(BATCH_BYTES // 2), timestamp=1)])) - BATCH_BYTES // 2
    batch = build_batch([NewRecord(bytes(BATCH_BYTES - overhead), timestamp=1)], leader_epoch=0)
    builder = IndexBuilder(0)
    for offset in range(batches):
        builder.add(offset, offset, len(batch), 1)
    entries = builder.take()
    return SegmentInfo.written(builder), batch.rstrip(b"\0"), (entries.offset_entries, entries.time_entries)


def write_sparse(archive, folder, batches):
    """The files of that segment; the zeros of the values are holes."""
    segment, head, indexes = segment_of(batches)
    (archive / folder).mkdir()
    log, *index_files = (archive / name for name in file_names(folder, 0))
    with log.open("wb") as file:
        for offset in range(batches):
            os.pwrite(file.fileno(), struct.pack(">q", offset) + head[8:], offset * BATCH_BYTES)
        file.truncate(segment.size_bytes)
    for path, data in zip(index_files, indexes, strict=True):
        path.write_bytes(data)


@pytest.fixture
def data(tmp_path):
    """Many partitions of a batch each, one of a gigabyte, all of it archived, and the broker stopped in order.

    Only two have files: whoever looks at another one's fails.
    """
    data = tmp_path / "data"
    journal, broker = opened(data, CountingFileSystem())
    create_topics(journal, broker, {f"topic-{number}": PARTITIONS for number in range(TOPICS)} | {"huge": 1})
    (small, *_), (huge, *_) = segment_of(1), segment_of(HUGE_BATCHES)
    partitions = {
        log.entry_key: PartitionManifest(log.folder, 0, one.last_offset + 1, (one,))
        for log, one in ((log, huge if log.topic == "huge" else small) for log in broker.logs)
        if not log.topic.startswith("__")
    }
    write_sparse(data / "archive", "huge-0", HUGE_BATCHES)
    write_sparse(data / "archive", "topic-7-3", 1)
    broker.logs.archive.commit(Edit(broker.logs.archive.lsn, partitions))
    journal.seal()
    found = archive_one(Archiver(broker.logs.archive, journal), broker.logs)
    journal.recycle(found[0])
    journal.close()
    return data


def read_one(log, offset):
    result = log.read(offset, 1, at_least_one=True)
    ((header, batch),) = iterate_batches(b"".join(result.cold() if result.cold else result.parts))
    assert (header.base_offset, len(batch)) == (offset, BATCH_BYTES)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_opens_no_file_of_a_partition_and_reads_little(data, is_clean):
    """Case 35."""
    if not is_clean:
        (data / MARK_NAME).unlink()
    files = CountingFileSystem()
    tracemalloc.start()
    try:
        journal, broker = opened(data, files)
        memory_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    manifest_bytes = (data / "archive" / "manifest").stat().st_size
    of_state = "__cluster_metadata-0"  # read because what it says is kept in memory

    assert len(broker.logs) == TOPICS * PARTITIONS + 2
    assert {path.parent.name for path in files.counted.opened} == {"data", "journal", "archive", of_state} - (
        set() if is_clean else {"data"}
    )
    assert len(files.counted.opened) <= OPENED_MAX
    assert files.counted.read_bytes <= manifest_bytes + READ_BYTES_MAX
    assert memory_bytes <= len(broker.logs) * MEMORY_BYTES_MAX
    files.counted = Counted()
    read_one(broker.logs.find("huge", 0), HUGE_BATCHES - 1)
    read_one(broker.logs.find("topic-7", 3), 0)
    assert len(files.counted.opened) == 4, "batches and index of each log, when they are first used"
    journal.close()


def test_it_would_be_noticed_if_a_start_opened_the_files(data, monkeypatch):
    """The counts above can fail: a log that looks at its last segment when it is attached."""
    original = PartitionLog.attach

    def attach(log, archived, producers):
        original(log, archived, producers)
        log.archived.read(archived.end_offset - 1, 1, at_least_one=True).cold()

    monkeypatch.setattr(PartitionLog, "attach", attach)

    with pytest.raises(StartError, match="the file is missing"):
        opened(data, CountingFileSystem())
