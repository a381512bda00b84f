"""The mark of a clean shutdown: the work that it saves at startup, and that no crash looks clean."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.archive.local.manifest_file import MANIFEST_NAME
from pipeline_broker.log.archive.manifest import Edit
from pipeline_broker.log.errors import JournalCorrupt, ManifestDamaged
from pipeline_broker.log.journal.clean_shutdown import (
    MARK_NAME,
    WRITING_NAME,
    CleanShutdown,
    ManifestEnd,
    read_mark,
    write_mark,
)
from pipeline_broker.log.journal.journal import Journal, JournalPorts
from pipeline_broker.log.journal.segment import HEADER_SPACE, SEGMENT_SUFFIX
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from tests.archiving import archive_all
from tests.files.memory_file_system import MemoryFileSystem

DIRECTORY = Path("/data")
MARK = DIRECTORY / MARK_NAME
TOPIC_ID = bytes(range(16))
OPERATIONS_MAX = 1000  # of the disk, in the lives below
CHANGING = {"write", "sync", "truncate", "create", "rename", "unlink", "sync directory", "make directory"}
_DICE = random.Random(7)
POWER_CUTS = (lambda _: 0, lambda n: n, lambda n: _DICE.randint(0, n))  # nothing survives, everything, something
marks = st.builds(
    CleanShutdown,
    *[st.integers(0, (1 << 63) - 1)] * 4,
    st.builds(ManifestEnd, st.integers(0, 1 << 40), st.integers(0, (1 << 32) - 1)),
)


class KilledError(BaseException):
    """The process ends here."""


class Life:
    """A broker's storage from its start on."""

    def __init__(self, files, directory=DIRECTORY, flush="always"):
        ports = JournalPorts(manifest_end=lambda: self.archive.manifest_end)
        self.journal = Journal.open(directory, files=files, flush=flush, segment_bytes=64 << 10, ports=ports)
        try:
            clean = self.journal.clean_shutdown
            self.was_clean = clean is not None
            self.archive = open_local_archive(directory, files, None if clean is None else clean.manifest)
            self.manager = LogManager(self.journal, archive=self.archive)
            (self.log,) = self.manager.create("topic", TOPIC_ID, 1)
            self.manager.recover(lambda *_: None, 0)
        except (JournalCorrupt, ManifestDamaged):
            self.journal.close()
            raise

    def entry(self):
        batch = build_batch([NewRecord(b"value")])
        return self.log.append(read_header(batch), batch, 0).entry

    def commit(self):
        entry = self.entry()
        self.journal.sync(self.journal.write([entry]))
        self.manager.on_durable([entry])

    def archive_all(self):
        archive_all(self.journal, self.manager)


def operations_of(files, work):
    """Return the disk operations of `work`, and its result."""
    operations = []
    files.before = lambda operation, path: operations.append((operation, path))
    result = work()
    files.before = lambda *_: None
    return operations, result


def stopped(flush="always"):
    """The disk of a broker that was stopped in order, with records in archive and journal."""
    files = MemoryFileSystem()
    life = Life(files, flush=flush)
    life.commit()
    life.archive_all()
    life.commit()
    life.journal.close()
    return files


@given(marks)
def test_a_mark_is_read_as_it_was_written_also_after_a_power_cut(mark):
    files = MemoryFileSystem()
    files.make_directory(DIRECTORY)
    write_mark(files, DIRECTORY, mark)

    files.power_cut(POWER_CUTS[0])
    assert read_mark(files, DIRECTORY) == mark


@given(marks, st.data())
def test_a_truncated_or_changed_mark_is_ignored(mark, data):
    files = MemoryFileSystem()
    files.make_directory(DIRECTORY)
    write_mark(files, DIRECTORY, mark)
    file = files.open(MARK)
    image = bytearray(file.read(1000, 0))
    if data.draw(st.booleans()):
        bit = data.draw(st.integers(0, 8 * len(image) - 1))
        image[bit // 8] ^= 1 << (bit % 8)
    else:
        image = image[: data.draw(st.integers(0, len(image) - 1))]
    file.truncate(0)
    file.write([bytes(image)], 0)

    assert read_mark(files, DIRECTORY) is None


@pytest.mark.parametrize("flush", ["always", "os"])
def test_a_start_after_a_clean_stop_repairs_nothing(flush):
    """It writes to no file and syncs none; all that it changes is that the mark goes."""
    operations, life = operations_of(files := stopped(flush), lambda: Life(files, flush=flush))
    changes = [(operation, path) for operation, path in operations if operation in CHANGING]

    assert life.was_clean
    assert [each for each in changes if each != ("sync directory", DIRECTORY)] == [("unlink", MARK)]
    assert life.log.high_watermark == 2


def test_a_shutdown_with_an_unsynced_commit_leaves_no_mark():
    """Its sync may still fail, and the caller that waits for it gets an error."""
    files = MemoryFileSystem()
    life = Life(files)
    life.commit()
    life.journal.write([life.entry()])
    life.journal.close()
    assert MARK_NAME not in files.list_directory(DIRECTORY)


def test_startup_after_a_crash_repairs_the_journal():
    files = stopped()
    Life(files).commit()
    files.kill()
    operations, life = operations_of(files, lambda: Life(files))

    assert not life.was_clean
    assert {operation for operation, _ in operations} >= {"write", "sync", "rename"}
    assert life.log.high_watermark == 3


def test_with_flush_os_a_power_cut_after_a_clean_stop_loses_nothing():
    files = stopped("os")
    files.power_cut(lambda _: 0)

    assert Life(files, flush="os").log.high_watermark == 2


def test_with_flush_os_a_power_cut_after_a_clean_stop_loses_nothing_of_complete_segments_either():
    """None of them was synced before: a stop syncs all that the archive does not hold."""
    files = MemoryFileSystem()
    life = Life(files, flush="os")
    written = 0
    while life.journal.segment_count < 3:
        life.commit()
        written += 1
    life.journal.close()
    files.power_cut(lambda _: 0)

    assert Life(files, flush="os").log.high_watermark == written


def lives(files, acknowledged, flush):
    """A start, a commit, a round of the archive, a commit, a stop; `acknowledged` counts."""
    life = Life(files, flush=flush)
    assert life.log.high_watermark >= acknowledged[0], "acknowledged records are lost"
    acknowledged[0] = life.log.high_watermark
    life.commit()
    acknowledged[0] += 1
    life.archive_all()
    life.commit()
    acknowledged[0] += 1
    life.journal.close()


def crash_everywhere(flush="always", *, cuts=True):
    """Two lives and the start of a third, killed at each of their operations in turn; with the power, if it is cut.

    Returns at how many operations there was a mark to be seen when the next life began.
    """
    with_mark = 0
    for number in range(OPERATIONS_MAX):
        for throw in POWER_CUTS if cuts else (None,):
            files, acknowledged = stopped(flush), [2]
            count = iter(range(number))

            def before(operation, path, count=count):
                if operation in CHANGING and next(count, None) is None:
                    raise KilledError

            files.before = before
            try:
                lives(files, acknowledged, flush)
                lives(files, acknowledged, flush)
            except KilledError:
                is_killed = True
            else:
                is_killed = False
            files.before = lambda *_: None
            files.kill() if throw is None else files.power_cut(throw)
            with_mark += MARK_NAME in files.list_directory(DIRECTORY)
            lives(files, acknowledged, flush)  # in which nothing is refused
            lives(files, acknowledged, flush)
        if not is_killed:
            return number, with_mark
    raise AssertionError("it does not end")


@pytest.mark.parametrize("cuts", [True, False])
def test_a_crash_at_any_operation_of_stop_and_start_is_harmless(cuts):
    """Case 10."""
    count, with_mark = crash_everywhere(cuts=cuts)

    assert 0 < with_mark < count * (3 if cuts else 1), "some crashes left the mark, and most did not"


def test_with_flush_os_a_kill_at_any_operation_is_harmless():
    crash_everywhere("os", cuts=False)


def test_a_mark_that_outlives_the_first_write_is_noticed(monkeypatch):
    """If the mark is not removed, a crash looks clean, and later writes are refused or lost."""
    monkeypatch.setattr("pipeline_broker.log.journal.journal.remove_mark", lambda *_: None)
    with pytest.raises((JournalCorrupt, ManifestDamaged)):
        crash_everywhere()


def test_a_removal_that_is_not_durable_is_noticed(monkeypatch):
    """The power brings the mark back."""

    def remove(files, data_directory):
        if MARK_NAME in files.list_directory(data_directory):
            files.unlink(data_directory / MARK_NAME)

    monkeypatch.setattr("pipeline_broker.log.journal.journal.remove_mark", remove)
    with pytest.raises((JournalCorrupt, ManifestDamaged)):
        crash_everywhere()


def test_a_mark_before_the_last_sync_is_noticed(monkeypatch):
    """The mark claims bytes that a power cut removes."""
    original = Journal._end

    def hasty(journal, segment):
        files = journal._files
        files.settle = lambda content: content.settle() if len(content.seen) < HEADER_SPACE else None
        original(journal, segment)
        del files.settle

    monkeypatch.setattr(Journal, "_end", hasty)
    with pytest.raises(JournalCorrupt):
        crash_everywhere()


def cut_journal(directory):
    """At the end of a frame, where nothing tells that another one was there."""
    path = max(directory.glob(f"journal/*{SEGMENT_SUFFIX}"))
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"PBPJ", 0, data.rindex(b"PBPJ"))])


def cut_manifest(directory):
    path = directory / "archive" / MANIFEST_NAME
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"PBMF")])


@pytest.mark.parametrize(("damage", "error"), [(cut_journal, JournalCorrupt), (cut_manifest, ManifestDamaged)])
def test_records_missing_after_a_clean_shutdown_refuse_every_start_until_the_mark_is_removed(tmp_path, damage, error):
    """Without the mark it looks like the torn end that a crash may leave."""
    for commits in (3, 1):
        life = Life(SystemFileSystem(), tmp_path)
        for _ in range(commits):
            life.commit()
        if commits == 3:
            life.archive_all()
        else:
            life.archive.commit(Edit(life.archive.lsn, {}))
        life.journal.close()
    damage(tmp_path)
    for _ in range(2):
        with pytest.raises(error, match=MARK_NAME):
            Life(SystemFileSystem(), tmp_path)
    (tmp_path / MARK_NAME).unlink()
    life = Life(SystemFileSystem(), tmp_path)
    life.journal.close()

    assert not life.was_clean


def test_a_full_disk_takes_the_mark_and_not_the_stop():
    files = stopped()
    life = Life(files)
    life.commit()

    def full(operation, path):
        if operation == "create":
            raise OSError(28, "No space left on device", str(path))

    files.before = full
    life.journal.close()
    files.before = lambda *_: None
    life = Life(files)

    assert not life.was_clean
    assert life.log.high_watermark == 3


def test_an_archive_whose_manifest_failed_has_no_mark():
    """After a failed sync, the content of the file may be in memory only."""
    files = stopped()
    life = Life(files)
    life.commit()

    def failing(operation, path):
        if operation == "sync" and path.name == MANIFEST_NAME:
            raise OSError(5, "Input/output error", str(path))

    files.before = failing
    with pytest.raises(OSError, match="Input"):
        life.archive_all()
    files.before = lambda *_: None
    life.journal.close()

    assert not Life(files).was_clean


def test_startup_with_an_unreadable_mark_releases_the_directory():
    files = stopped()

    def failing(operation, path):
        if operation == "read" and path.name == MARK_NAME:
            raise OSError(5, "Input/output error", str(path))

    files.before = failing
    with pytest.raises(OSError, match="Input"):
        Life(files)
    files.before = lambda *_: None

    assert Life(files).was_clean


def test_the_manifest_stays_short_over_many_clean_shutdowns():
    """Such starts do not rewrite it, but remember the size of its first edit."""
    files = stopped()
    sizes = []
    for _ in range(5):
        life = Life(files)
        life.commit()
        life.archive_all()
        sizes.append((life.archive._manifest_file._sum_bytes, life.archive.manifest_end.size_bytes))
        life.journal.close()

    assert len({sum_bytes for sum_bytes, _ in sizes}) == 1
    assert sizes == sorted(sizes)


def test_a_broker_whose_directory_was_replaced_marks_nothing_in_the_other_one(tmp_path):
    """Another broker may be at work there by now, and its next start would be refused."""
    files, data = SystemFileSystem(), tmp_path / "data"
    data.mkdir()
    journal = Journal.open(data, files=files)
    assert list(journal.recover()) == []
    data.rename(tmp_path / "elsewhere")
    data.mkdir()
    other = Journal.open(data, files=files)
    assert list(other.recover()) == []
    journal.close()
    assert not (data / MARK_NAME).exists()
    assert not (tmp_path / "elsewhere" / MARK_NAME).exists()
    other.close()
    assert (data / MARK_NAME).exists()


@pytest.mark.parametrize("size_bytes", [0, 5, 1000])
def test_an_interrupted_mark_is_not_part_of_the_next_one(size_bytes):
    files = MemoryFileSystem()
    files.make_directory(DIRECTORY)
    files.open(DIRECTORY / WRITING_NAME, create=True).write([bytes(size_bytes)], 0)
    mark = CleanShutdown(1, 2, 3, 4, ManifestEnd(5, 6))
    write_mark(files, DIRECTORY, mark)
    assert read_mark(files, DIRECTORY) == mark
    assert files.list_directory(DIRECTORY) == [MARK_NAME]
