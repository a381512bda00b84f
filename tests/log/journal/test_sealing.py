"""Sealing of journal segments, and the durability of those that are not complete."""

import pytest

from pipeline_broker.log.errors import JournalCorrupt, JournalFailed
from pipeline_broker.log.journal.journal import LARGE_BATCH_BYTES, LARGE_SEALED_FACTOR
from pipeline_broker.log.journal.segment import segment_path
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.journal import test_journal
from tests.log.journal.test_recycling import commit, entry_of, start


def test_seal_respects_the_limit_and_ignores_a_failed_or_closed_journal():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    journal.attach_archiver(1)
    for _ in range(2):
        commit(journal, log, b"x")
        journal.seal()
    assert (journal.sealed(), journal.segment_count) == ([(1, 1)], 2)
    journal.attach_archiver(3)

    def fail(operation, _path):
        if operation == "sync":
            raise OSError(5, "Input/output error")

    files.before, healthy = fail, files.before
    with pytest.raises(JournalFailed):
        commit(journal, log, b"y")
    files.before = healthy
    journal.seal()
    assert journal.segment_count == 2
    journal.close()
    journal.seal()
    assert journal.segment_count == 0


def test_a_closed_journal_is_not_sealed():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    commit(journal, log, b"x")
    journal.close()
    journal.seal()
    assert (journal.sealed(), files.list_directory(journal.directory)) == (
        [],
        [segment_path(journal.directory, 1).name],
    )


def sealed_with(journal, log, batches):
    """Return the complete segments at the limit, with the given number of batches in each."""
    count = -1
    while len(journal.sealed()) > count:
        count = len(journal.sealed())
        for _ in range(batches):
            commit(journal, log, b"x")
        journal.seal()
    return [number for number, _ in journal.sealed()]


FEW = 4
SEGMENT_BYTES = FEW * LARGE_BATCH_BYTES
SEALED_MAX = 2


@pytest.mark.parametrize(("batches", "sealed_max"), [(FEW, SEALED_MAX * LARGE_SEALED_FACTOR), (FEW + 1, SEALED_MAX)])
def test_more_segments_may_wait_for_the_archive_where_they_hold_few_batches(batches, sealed_max):
    journal, log, _ = start(MemoryFileSystem(), segment_bytes=SEGMENT_BYTES)
    journal.attach_archiver(SEALED_MAX)
    assert sealed_with(journal, log, batches) == list(range(1, sealed_max + 1))


def test_archived_segments_no_longer_count():
    """The second run continues in the segment with the last commit of the first run."""
    files = MemoryFileSystem()
    journal, log, _ = start(files, segment_bytes=SEGMENT_BYTES)
    journal.attach_archiver(SEALED_MAX)
    assert sealed_with(journal, log, FEW) == list(range(1, 11))
    journal.recycle(4)
    assert sealed_with(journal, log, FEW - 2) == list(range(5, 15))
    archived_lsn = dict(journal.sealed())[7]
    journal.recycle(7)
    journal.close()
    journal, log, _ = start(files, segment_bytes=SEGMENT_BYTES, archived_lsn=archived_lsn)
    journal.attach_archiver(SEALED_MAX)
    assert sealed_with(journal, log, FEW - 2) == list(range(8, 18))


def test_a_commit_that_is_durable_may_be_synced_again():
    journal, log, _ = start(MemoryFileSystem())
    ticket = journal.write([entry_of(log, b"one")])
    for _ in range(2):
        journal.sync(ticket)
    journal.seal()
    assert journal.sealed() == [(1, 1)]


def test_a_segment_after_the_marked_end_refuses_the_start():
    """Whatever put it there: the broker had begun none."""
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    commit(journal, log, b"one")
    journal.close()
    path = segment_path(journal.directory, 2)
    files.open(path, create=True)
    with pytest.raises(JournalCorrupt, match="as at the clean shutdown, but its segments have changed since"):
        start(files)
    files.kill()
    files.unlink(path)
    assert start(files)[2] == [b"one"]


def goes_on_and_keeps_what_it_commits(files):
    files.kill()
    journal, log, found = test_journal.start("/data", files)
    assert found == []
    test_journal.commit(journal, log, b"behind")
    files.power_cut(lambda _: 0)
    assert test_journal.start("/data", files)[2] == [b"behind"]


def test_a_first_header_whose_sync_failed_is_on_disk_once_the_next_run_has_written():
    files = MemoryFileSystem()
    healthy = test_journal.failing(files, "sync")
    with pytest.raises(OSError, match="Input/output"):
        test_journal.start("/data", files)
    files.before = healthy
    goes_on_and_keeps_what_it_commits(files)


def test_the_name_of_a_first_segment_is_on_disk_once_the_next_run_has_written():
    """The process that created it was killed before the sync."""
    files = MemoryFileSystem()

    class KilledError(BaseException):
        pass

    def kill(operation, path):
        if operation == "sync directory" and path.name == JOURNAL_NAME:
            raise KilledError

    files.before, healthy = kill, files.before
    with pytest.raises(KilledError):
        test_journal.start("/data", files)
    files.before = healthy
    goes_on_and_keeps_what_it_commits(files)
