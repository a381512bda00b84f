"""Large commits: writing past the page cache, and reading back."""

from pathlib import Path

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.files.large_writes import LARGE_WRITE_BYTES_MIN
from pipeline_broker.log.journal.journal import NO_PORTS, Journal, JournalPorts
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.record import iterate_records
from tests.files.memory_file_system import MemoryFileSystem

DIRECTORY = Path("/data")


def start(files, directory, segment_bytes, ports=NO_PORTS, flush="always"):
    journal = Journal.open(directory, files=files, segment_bytes=segment_bytes, ports=ports, flush=flush)
    (log,) = LogManager(journal).create("topic", bytes(range(16)), 1)
    assert list(journal.recover()) == []
    return journal, log


def commit(journal, log, value):
    batch = build_batch([NewRecord(value)])
    journal.sync(journal.write([log.append(read_header(batch), batch, now_ms=0).entry]))


def test_large_commits_bypass_the_page_cache_unless_they_reuse_space():
    """Used space has its pages there already."""
    files = MemoryFileSystem()
    journal, log = start(files, DIRECTORY, 1 << 20)
    seen = []
    files.before = lambda operation, _path: seen.append(operation)
    value = bytes(LARGE_WRITE_BYTES_MIN)
    for _ in range(6):
        commit(journal, log, value)
    assert seen.count("write blocks") == 6
    for number, _ in journal.sealed()[:1]:
        journal.recycle(number)
    segments = journal.segment_count
    while journal.segment_count == segments:
        commit(journal, log, value)  # the first is the first in the used space
    seen.clear()
    commit(journal, log, value)
    assert "write blocks" not in seen


def test_large_commits_without_a_sync_use_the_page_cache():
    files = MemoryFileSystem()
    journal, log = start(files, DIRECTORY, 1 << 20, flush="os")
    seen = []
    files.before = lambda operation, _path: seen.append(operation)
    commit(journal, log, bytes(LARGE_WRITE_BYTES_MIN))
    assert "write" in seen
    assert "write blocks" not in seen


@pytest.mark.parametrize("directory", [None, DIRECTORY])
def test_large_batches_are_read_from_a_complete_segment(directory, tmp_path):
    """They went past the page cache, the small ones between them through it."""
    files = SystemFileSystem() if directory is None else MemoryFileSystem()
    journal, log = start(files, directory or tmp_path, 4 << 20)
    values = [
        bytes([number]) * (10 if number % 3 == 2 else LARGE_WRITE_BYTES_MIN + 77 * number) for number in range(40)
    ]
    for value in values:
        commit(journal, log, value)
    journal.seal()

    found = [
        bytes(record.value)
        for number, end_lsn in journal.sealed()
        for _, _, batch in journal.sealed_entries(number, end_lsn)
        for record in iterate_records(batch, read_header(batch))
    ]
    assert len(journal.sealed()) > 1
    assert sorted(found) == values
    journal.close()


def test_no_spare_is_prepared_for_large_commits():
    asked = []
    ports = JournalPorts(prepare_wanted=lambda: asked.append(journal.next_lsn))
    journal, log = start(MemoryFileSystem(), DIRECTORY, 4 << 20, ports)
    for _ in range(40):
        commit(journal, log, bytes(2 * LARGE_WRITE_BYTES_MIN))
    asked.clear()
    for _ in range(20):
        commit(journal, log, bytes(2 * LARGE_WRITE_BYTES_MIN))
    assert not asked
    for _ in range(4000):
        commit(journal, log, bytes(1000))
    assert asked
