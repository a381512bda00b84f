"""After a full disk, writes resume only once a margin is free, so that the broker does not flap."""

import errno
import os

import pytest

from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.writer_room import RESUME_BYTES, RESUME_SHARE
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.journal.test_recycling import entry_of
from tests.log.journal.test_writer_room import Writer, serving, wait_until


class DiskChecks:
    """Makes operations of a journal fail for lack of space, and counts the checks of the space afterwards."""

    def __init__(self, files, error=errno.ENOSPC):
        self.count = 0
        self.error = error
        self.is_full = True
        files.before = self.before

    def before(self, operation, path):
        self.count += operation == "total bytes"
        if self.is_full and operation == "write":
            raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize(
    ("total_bytes", "margin_bytes"), [(1 << 40, RESUME_BYTES), (20 << 20, (20 << 20) // RESUME_SHARE)]
)
def test_after_a_full_disk_writes_resume_once_a_margin_is_free(total_bytes, margin_bytes, caplog):
    files = MemoryFileSystem()
    journal, log = serving(files)
    files.total, files.free = total_bytes, 0
    disk = DiskChecks(files)
    writer = Writer(journal, log, 1)
    wait_until(lambda: disk.count > 0)
    disk.is_full, files.free = False, margin_bytes - 1
    seen = disk.count
    wait_until(lambda: disk.count > seen + 3)
    assert writer.committed == 0
    assert journal.room.obstacle.errno == errno.ENOSPC
    assert journal.write_nowait([entry_of(log, b"a")]) is None
    files.free = margin_bytes
    writer.join()
    assert (writer.committed, journal.room.obstacle) == (1, None)
    assert len(caplog.messages) == 2, "one refusal and its end"


@pytest.mark.parametrize("error", [errno.EDQUOT, errno.EMFILE])
def test_the_margin_applies_to_a_full_disk_only(error):
    """The free space of the disk shows neither the quota of a user nor descriptors."""
    files = MemoryFileSystem()
    journal, log = serving(files)
    files.free = 0
    disk = DiskChecks(files, error)
    writer = Writer(journal, log, 1)
    wait_until(lambda: journal.room.obstacle is not None)
    disk.is_full = False
    writer.join()
    assert writer.committed == 1
    assert disk.count == 0


def test_a_disk_that_does_not_report_its_space_needs_no_margin():
    files = MemoryFileSystem()
    journal, log = serving(files)
    files.free = 0
    disk = DiskChecks(files)
    writer = Writer(journal, log, 1)
    wait_until(lambda: disk.count > 0)

    def before(operation, _path):
        if operation == "total bytes":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.before = before
    writer.join()
    assert writer.committed == 1


@pytest.mark.parametrize("end", [Journal.close, Journal.detach_archiver])
def test_the_end_of_the_broker_ends_the_wait_for_a_margin(end):
    files = MemoryFileSystem()
    journal, log = serving(files)
    files.free = 0
    disk = DiskChecks(files)
    writer = Writer(journal, log, 1)
    wait_until(lambda: disk.count > 0)
    end(journal)
    writer.join()
    assert writer.committed == 0
    assert "No space left on device" in writer.failure or writer.failure == "the journal is closed"
