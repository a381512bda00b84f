"""Writes on the event loop: like any other if they need not wait, and nothing if they might."""

import errno
import os

import pytest

from pipeline_broker.log.errors import JournalFailed
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD, FRAME_HEADER_SIZE
from pipeline_broker.log.journal.journal import NOWAIT_BYTES_MAX, JournalPorts
from pipeline_broker.records.batch import NewRecord, build_batch
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.journal.test_journal import entry_of, failing, start

SEGMENT_BYTES = 256 << 10


@pytest.fixture
def files():
    return MemoryFileSystem()


@pytest.fixture
def journal_and_log(files):
    journal, log, _ = start("/d", files, segment_bytes=SEGMENT_BYTES)
    return journal, log


def test_its_commits_are_recovered_between_other_writes(files, journal_and_log):
    journal, log = journal_and_log
    for number in range(6):
        write = journal.write_nowait if number % 2 else journal.write
        journal.sync(write([entry_of(log, b"%d" % number)]))
    journal.close()
    _, _, found = start("/d", files, segment_bytes=SEGMENT_BYTES)
    assert found == [b"%d" % number for number in range(6)]


def test_it_does_nothing_while_another_thread_writes(journal_and_log):
    journal, log = journal_and_log
    with journal._write_lock:
        assert journal.write_nowait([entry_of(log, b"a")]) is None
    assert journal.next_lsn == 0


def test_it_does_nothing_with_a_large_commit(journal_and_log):
    journal, log = journal_and_log
    assert journal.write_nowait([entry_of(log, bytes(NOWAIT_BYTES_MAX))]) is None
    assert journal.next_lsn == 0


def test_a_commit_of_the_bound_is_not_large(journal_and_log):
    journal, log = journal_and_log
    frame = FRAME_HEADER_SIZE + ENTRY_OVERHEAD
    value = bytes(NOWAIT_BYTES_MAX - frame - len(build_batch([NewRecord(bytes(NOWAIT_BYTES_MAX))])) + NOWAIT_BYTES_MAX)
    for more, is_written in ((b"x", False), (b"", True)):
        entry = entry_of(log, value + more)
        assert frame + entry.size_bytes == NOWAIT_BYTES_MAX + len(more)
        assert (journal.write_nowait([entry]) is not None) is is_written


def test_it_does_nothing_where_a_new_segment_is_needed(journal_and_log):
    journal, log = journal_and_log
    record = bytes(NOWAIT_BYTES_MAX // 2)
    while (ticket := journal.write_nowait([entry_of(log, record)])) is not None:
        journal.sync(ticket)
        assert journal.next_lsn < SEGMENT_BYTES // len(record)
    assert journal.segment_count == 1
    journal.sync(journal.write([entry_of(log, record)]))
    assert journal.segment_count == 2


def test_it_leaves_commits_without_space_to_a_thread(files, journal_and_log):
    journal, log = journal_and_log
    journal.attach_archiver(10)
    healthy = failing(files, "write", errno.ENOSPC)
    assert journal.write_nowait([entry_of(log, b"a")]) is None
    files.before = healthy
    journal.sync(journal.write_nowait([entry_of(log, b"b")]))
    assert journal.next_lsn == 1


def test_it_does_nothing_while_other_writers_wait(journal_and_log):
    journal, log = journal_and_log
    journal.room.obstacle = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert journal.write_nowait([entry_of(log, b"a")]) is None


def test_a_write_that_fails_for_good_fails_the_journal(files, journal_and_log):
    journal, log = journal_and_log
    healthy = failing(files, "write")
    with pytest.raises(JournalFailed):
        journal.write_nowait([entry_of(log, b"a")])
    files.before = healthy
    for entries in ([entry_of(log, b"b")], []):
        with pytest.raises(JournalFailed):
            journal.write_nowait(entries)


def test_a_journal_that_is_closed_refuses_it(journal_and_log):
    journal, log = journal_and_log
    entry = entry_of(log, b"late")
    journal.close()
    for entries in ([entry], []):
        with pytest.raises(JournalFailed, match="the journal is closed"):
            journal.write_nowait(entries)


def test_it_requests_a_spare_when_the_segment_is_half_full(files):
    asked = []
    ports = JournalPorts(prepare_wanted=lambda: asked.append(journal.next_lsn))
    journal, log, _ = start("/d", files, segment_bytes=SEGMENT_BYTES, ports=ports)
    while journal.write_nowait([entry_of(log, bytes(NOWAIT_BYTES_MAX // 2))]) is not None:
        pass
    assert len(asked) == 1
