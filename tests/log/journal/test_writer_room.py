"""A journal without space waits, reports the obstacle and resumes, at every operation."""

import errno
import os
import threading
from contextlib import contextmanager

import pytest

from pipeline_broker.files.errors import SyncError, is_passing
from pipeline_broker.log.errors import JournalFailed
from pipeline_broker.log.journal.journal import Journal, JournalPorts
from pipeline_broker.log.journal.segment import SEGMENT_SUFFIX
from pipeline_broker.log.journal.writer_room import WriterRoom
from pipeline_broker.log.log_manager import LogManager
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.journal.test_recycling import DIRECTORY, SEGMENT_BYTES, VALUE, commit, entry_of, start

RETRY_SECONDS = 0.001
WAIT_SECONDS = 10.0
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
IN_THE_JOURNAL = ("journal", SEGMENT_SUFFIX)
"""Endings of the paths that a roll or a write uses."""


def serving(files):
    """A journal of a broker that serves: its writers may wait."""
    journal, log, _ = start(files)
    journal.attach_archiver(10)
    journal.room.retry_seconds = RETRY_SECONDS
    return journal, log


@contextmanager
def refusing(files, error, operations, *, skip_count=0):
    """These operations of the journal fail while the body runs; gives a list with one element per refusal."""
    refused, passed = [], []

    def before(operation, path):
        if operation in operations and path.name.endswith(IN_THE_JOURNAL):
            passed.append(operation)
            if len(passed) > skip_count:
                refused.append(operation)
                raise OSError(error, os.strerror(error))

    files.before = before
    try:
        yield refused
    finally:
        files.before = lambda _operation, _path: None


class Writer:
    """Commits in a thread of its own until it is stopped."""

    def __init__(self, journal, log, count):
        self.committed = 0
        self.failure = None
        self._journal, self._log, self._count = journal, log, count
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            for _ in range(self._count):
                commit(self._journal, self._log, str(self._log.log_end_offset).encode() + VALUE)
                self.committed += 1
        except JournalFailed as error:
            self.failure = str(error)

    def join(self):
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()


def wait_until(is_so):
    deadline = threading.Event()
    for _ in range(int(WAIT_SECONDS / RETRY_SECONDS)):
        if is_so():
            return
        deadline.wait(RETRY_SECONDS)
    raise AssertionError("it does not come about")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("operations", [("create",), ("write",), ("open",), ("sync directory",), ("rename",)])
@pytest.mark.parametrize("has_spare", [False, True])
def test_writes_without_space_wait_and_continue_with_the_next_lsn(error, operations, has_spare, caplog):
    files = MemoryFileSystem()
    journal, log = serving(files)
    if has_spare:
        journal.prepare_ahead()
    with refusing(files, error, operations, skip_count=1) as refused:
        writer = Writer(journal, log, 12)
        wait_until(lambda: journal.room.obstacle is not None or writer.committed == 12)
        is_met = journal.room.obstacle is not None
        if is_met:
            assert journal.room.obstacle.errno == error
            wait_until(lambda: len(refused) > 2)
            assert writer.failure is None
    writer.join()

    assert (writer.committed, journal.next_lsn, journal.room.obstacle) == (12, 12, None)
    if is_met:
        assert "the journal cannot be written, and the broker refuses writes" in caplog.records[0].message
        assert caplog.records[-1].message == "the journal accepts writes again"
    journal.close()
    _, _, found = start(files)
    assert [int(value.rstrip(b"\0")) for value in found] == list(range(12))


@pytest.mark.parametrize("write", ["write", "write_nowait"])
@pytest.mark.parametrize(("error", "has_archiver"), [(errno.EIO, True), (errno.EIO, False), (errno.ENOSPC, False)])
def test_a_failed_write_fails_the_journal_unless_it_can_be_retried(error, has_archiver, write):
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    if has_archiver:
        journal.attach_archiver(10)
    journal.room.retry_seconds = RETRY_SECONDS
    refused = []

    def once(operation, path):
        if operation == "write" and not refused:
            refused.append(path)
            raise OSError(error, os.strerror(error))

    files.before = once
    for reason in ("cannot be written", "failed earlier"):
        with pytest.raises(JournalFailed, match=f"{reason}.*{os.strerror(error)}"):
            getattr(journal, write)([entry_of(log, b"a")])


def test_every_operation_of_the_journal_is_refused_once_in_turn_and_nothing_is_lost():
    """One run per operation, until a run has no operation left to refuse. Cases 20 and 21."""
    for number in range(200):
        files = MemoryFileSystem()
        journal, log = serving(files)
        journal.prepare_ahead()
        seen, refused = [], []

        def before(operation, path, number=number, seen=seen, refused=refused):
            if operation in ("sync", "read"):  # a sync that fails is for good
                return
            seen.append(operation)
            if len(seen) == number + 1:
                refused.append(path)
                raise FULL

        files.before = before
        writer = Writer(journal, log, 9)
        writer.join()
        files.before = lambda _operation, _path: None
        assert (writer.committed, writer.failure) == (9, None), seen
        journal.close()
        _, _, found = start(files)
        assert len(found) == 9
        if not refused:
            break
    else:
        raise AssertionError("operations never end")
    assert number > 20


def test_a_sync_that_finds_no_space_is_for_good():
    files = MemoryFileSystem()
    journal, log = serving(files)
    commit(journal, log)

    def before(operation, _path):
        if operation == "sync":
            raise FULL

    files.before = before
    with pytest.raises(JournalFailed):
        commit(journal, log)
    assert not is_passing(SyncError(errno.ENOSPC, "full"))


def test_startup_does_not_wait_for_space():
    """No client is served yet, so startup fails with the error."""
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    with refusing(files, errno.ENOSPC, ("write",)), pytest.raises(JournalFailed, match="No space left on device"):
        commit(journal, log)


@pytest.mark.parametrize("end", [Journal.close, Journal.detach_archiver])
def test_the_end_of_the_broker_ends_the_waiting(end):
    files = MemoryFileSystem()
    journal, log = serving(files)
    with refusing(files, errno.ENOSPC, ("write",)):
        writer = Writer(journal, log, 1)
        wait_until(lambda: journal.room.obstacle is not None)
        end(journal)
        writer.join()
    assert writer.committed == 0
    assert "No space left on device" in writer.failure or writer.failure == "the journal is closed"


def test_detaching_the_archiver_calls_its_callback():
    told = []
    journal, *_ = start(MemoryFileSystem(), ports=JournalPorts(archiver_detached=lambda: told.append(None)))
    journal.attach_archiver(1)
    assert told == []
    journal.detach_archiver()
    assert told == [None]


def test_a_writer_reports_the_obstacle_of_the_archive_and_resumes_with_it():
    journal, log = serving(MemoryFileSystem())
    journal.attach_archiver(1)
    for _ in range(4):
        commit(journal, log)
    journal.archive_waits(FULL)
    assert journal.room.obstacle is None, "no writer has had to wait"
    writer = Writer(journal, log, 1)
    wait_until(lambda: journal.room.obstacle is FULL)

    journal.archive_waits(None)
    wait_until(lambda: journal.room.obstacle is None)
    assert writer.committed == 0
    journal.recycle(1)
    writer.join()
    assert writer.committed == 1


def test_a_writer_waiting_for_the_archive_fails_when_another_sync_fails():
    """Nothing is archived any more, so no other event would wake it."""
    files = MemoryFileSystem()
    journal, log = serving(files)
    journal.attach_archiver(1)
    for _ in range(3):
        commit(journal, log)
    unsynced = journal.write([entry_of(log, VALUE)])
    writer = Writer(journal, log, 1)
    wait_until(lambda: journal.room._changed._waiters)

    def fail(operation, _path):
        if operation == "sync":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before = fail
    with pytest.raises(JournalFailed):
        journal.sync(unsynced)
    writer.join()
    assert writer.failure.startswith("the journal failed earlier: [Errno 5]")


def test_a_writer_waiting_for_the_archive_fails_before_close_waits_for_a_spare():
    """After `close`, no other event would wake it."""
    journal, log = serving(MemoryFileSystem())
    journal.attach_archiver(1)
    for _ in range(4):
        commit(journal, log)
    writer = Writer(journal, log, 1)
    wait_until(lambda: journal.room._changed._waiters)
    closing = threading.Thread(target=journal.close)
    with journal._prepare_lock:
        closing.start()
        writer.join()
        assert closing.is_alive()
    closing.join(WAIT_SECONDS)
    assert writer.failure == "the journal is closed"


def test_a_segment_that_could_not_be_begun_is_not_handed_out_as_complete():
    files = MemoryFileSystem()
    journal, log = serving(files)
    for _ in range(2):
        commit(journal, log)
    with refusing(files, errno.ENOSPC, ("create",)):
        with pytest.raises(OSError, match="No space left on device"):
            journal.seal()
        assert journal.sealed() == []
    journal.seal()
    assert journal.sealed() == [(1, 2)]


def test_a_refused_operation_leaves_no_file():
    """Else the next attempt would find it there."""
    files = MemoryFileSystem()
    journal, _ = serving(files)
    journal.write([])
    with refusing(files, errno.ENOSPC, ("sync directory",)):
        journal._position = SEGMENT_BYTES
        with pytest.raises(OSError, match="No space left on device"):
            journal.seal()
    assert sorted(files.list_directory(DIRECTORY / "journal")) == [f"{1:020d}{SEGMENT_SUFFIX}"]


def test_a_directory_that_is_in_use_is_in_its_place():
    files = MemoryFileSystem()
    journal = Journal.open(DIRECTORY, files=files)
    LogManager(journal)
    assert journal.is_in_place()
    journal.close()
    assert not journal.is_in_place()


def test_a_journal_that_cannot_mark_its_end_is_closed_all_the_same(caplog):
    files = MemoryFileSystem()
    journal, log = serving(files)
    commit(journal, log)
    with refusing(files, errno.ENOSPC, ("write",)):
        journal.close()
    assert caplog.records[-1].message == (
        "the end of the journal cannot be marked, so the next startup recovers as after a crash: [Errno 28] No space"
        " left on device"
    )
    _, _, found = start(files)
    assert found == [VALUE]


@pytest.mark.parametrize("has_spare", [False, True])
def test_a_half_recycled_segment_is_discarded_at_the_next_attempt(has_spare):
    """At each operation that it takes: with a use for the space it becomes the spare, else it goes."""
    for number in range(50):
        files = MemoryFileSystem()
        journal, log = serving(files)
        journal.prepare_ahead()
        for _ in range(4):
            commit(journal, log)
        journal.seal()
        if has_spare:
            journal.prepare_ahead()
        complete = [one for one, _ in journal.sealed()]
        seen = []

        def before(operation, _path, number=number, seen=seen):
            seen.append(operation)
            if len(seen) == number + 1 and operation != "sync":
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        files.before = before
        try:
            journal.recycle(complete[0])
        except OSError as error:
            assert is_passing(error)  # noqa: PT017 - the last time nothing is refused
            journal.recycle(complete[0])
        files.before = lambda _operation, _path: None
        assert [one for one, _ in journal.sealed()] == complete[1:]
        for _ in range(4):
            commit(journal, log)
        journal.close()
        assert len(start(files, archived_lsn=2)[2]) == 6
        if len(seen) <= number:
            break
    else:
        raise AssertionError("operations never end")
    assert number >= (2 if has_spare else 6)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_segment_that_cannot_be_sealed_continues_unless_the_disk_failed(error):
    """To seal is a matter of the archive: it comes again."""
    files = MemoryFileSystem()
    journal, log = serving(files)
    commit(journal, log, VALUE)
    with refusing(files, error, {"create"}) as refused:
        with pytest.raises(OSError if error == errno.ENOSPC else JournalFailed):
            journal.seal()
        assert len(refused) == 1
    if error == errno.EIO:
        with pytest.raises(JournalFailed, match="failed earlier"):
            commit(journal, log, VALUE)
    else:
        assert journal.sealed() == []
        commit(journal, log, VALUE)
        journal.seal()
        assert journal.sealed() == [(1, 2)]
    journal.close()


@pytest.mark.parametrize(
    ("archive_waits_for", "is_advised"), [(None, True), (errno.EDQUOT, True), (errno.ENOSPC, False)]
)
def test_advice_that_the_archiver_has_logged_is_not_repeated(archive_waits_for, is_advised, caplog):
    lock = threading.Lock()
    room = WriterRoom(lock)
    with lock:
        if archive_waits_for is not None:
            room.archive_waits(OSError(archive_waits_for, "full"))
        room.retry_seconds = 0
        room.wait(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    (message,) = caplog.messages
    assert message.endswith("refuses writes: [Errno 28] No space left on device") is not is_advised
    assert ("delete other files" in message) is is_advised
