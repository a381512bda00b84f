"""Reading of journal segments with a bounded number of open files."""

import weakref
from pathlib import Path

import pytest

from pipeline_broker.log.errors import RecycledError
from pipeline_broker.log.journal import journal_files as tested
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD, FRAME_HEADER_SIZE
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.journal_files import JournalFiles
from pipeline_broker.log.journal.segment import HEADER_SPACE, create_segment, global_position
from tests.belongings import belongings
from tests.compiled import IS_COMPILED
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.journal.test_recycling import commit, start

DIRECTORY = Path("/d/journal")


@pytest.fixture
def files():
    made = MemoryFileSystem()
    made.make_directory(DIRECTORY)
    for number in range(1, 5):
        create_segment(made, DIRECTORY, number).take_file().write([b"%d" % number], 0)
    return made


def read(readable, number):
    return bytes(readable.read(global_position(number, 0), 1))


@pytest.mark.skipif(IS_COMPILED, reason="machine code has the values of constants, not their names")
def test_the_files_that_were_read_last_stay_open(files, monkeypatch):
    monkeypatch.setattr(tested, "OPEN_FILES_MAX", 2)
    readable, opened = JournalFiles(files, DIRECTORY), []
    files.before = lambda operation, path: opened.append(int(path.stem)) if operation == "open" else None
    for number in (1, 2, 1, 3, 1, 3, 2, 1):
        assert read(readable, number) == b"%d" % number
    assert opened == [1, 2, 3, 2, 1], "of 1 and 2 the second was used last when 3 came, of 1 and 3 when 2 came"


def test_a_retired_segment_cannot_be_read_and_later_ones_can(files):
    readable = JournalFiles(files, DIRECTORY)
    assert [read(readable, number) for number in (1, 2, 3)] == [b"1", b"2", b"3"]
    kept_open = weakref.ref(readable.find(2))
    readable.retire(2)
    assert kept_open() is None
    for number in (1, 2):
        with pytest.raises(RecycledError, match=f"segment {number} was recycled"):
            read(readable, number)
    assert read(readable, 3) == b"3"


def test_of_readers_that_are_done_nothing_is_remembered(files):
    readable = JournalFiles(files, DIRECTORY)
    with readable.reading(1), readable.reading(2), readable.reading(1):
        assert dict(readable._readers) == {1: 2, 2: 1}
    assert dict(readable._readers) == {}


def test_close_closes_every_file(files):
    readable = JournalFiles(files, DIRECTORY)
    kept_open = weakref.ref(readable.find(1))
    assert kept_open() is not None
    readable.close()
    assert kept_open() is None


def test_a_journal_that_is_closed_holds_no_file_open(tmp_path):
    def open_files():
        return {it for it in belongings().descriptors if it.startswith(str(tmp_path))}

    journal = Journal.open(tmp_path)
    assert list(journal.recover()) == []
    assert journal.read_cached(global_position(1, 0), 1) is not None
    assert open_files()
    journal.close()
    assert open_files() == set()


def test_a_read_beyond_the_end_of_a_file_raises_an_error_with_the_position(files):
    readable = JournalFiles(files, DIRECTORY)
    with pytest.raises(OSError, match=f"{1:020d}.segment ends before 5010"):
        readable.read(global_position(1, 5000), 10)


def test_segments_recycled_before_a_restart_stay_unreadable():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    entries = [commit(journal, log) for _ in range(5)]
    (number, end_lsn), *others = journal.sealed()
    journal.recycle(number)
    journal.close()

    journal, _, found = start(files, archived_lsn=end_lsn)
    assert (len(found), journal.segment_count, journal.sealed()) == (5 - end_lsn, 2, others)
    with pytest.raises(RecycledError):
        journal.read(entries[end_lsn - 1].position, entries[end_lsn - 1].size_bytes)
    assert len(journal.read(entries[end_lsn].position, entries[end_lsn].size_bytes)) == entries[end_lsn].size_bytes


def test_a_position_has_a_readable_name():
    journal, log, _ = start(MemoryFileSystem())
    entries = [commit(journal, log, bytes(6000)) for _ in range(2)]
    position = HEADER_SPACE + FRAME_HEADER_SIZE + ENTRY_OVERHEAD
    assert [journal.name_of(entry.position) for entry in entries] == [
        ("journal segment 1", position),
        ("journal segment 2", position),
    ]
