"""Foreign files in the journal's directory, and journal files that no broker wrote."""

import os
import time

import pytest

from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.segment import SPARE_NAME, create_segment, segment_path
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.journal.test_recovery import DATA, SEGMENT_BYTES, opened, write


def test_foreign_files_are_ignored_and_kept(tmp_path):
    """Including names that resemble those of segments, and names that are not valid text."""
    journal = Journal.open(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert list(journal.recover()) == []
    write(journal, [90], [700])
    journal.close()
    names = [b"x.segment", b"9.segment", b"\xff.segment", b"new\nline.segment", "\uff15".encode() * 20 + b".segment"]
    strays = [tmp_path / "journal" / os.fsdecode(name) for name in names]
    for stray in strays:
        stray.write_bytes(b"stray")
    again = Journal.open(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert [len(entry.batch) for entry in again.recover()] == [90, 700]
    again.close()
    assert all(stray.read_bytes() == b"stray" for stray in strays)


def test_a_gap_in_the_numbers_is_reported_in_one_short_line():
    files = MemoryFileSystem()
    opened(files).close()
    for number in range(2, 5000, 2):
        create_segment(files, DATA / "journal", number)
    with pytest.raises(
        JournalCorrupt, match="segments are missing in /d/journal: 4 follows 2; nothing was changed"
    ) as gap:
        list(opened(files).recover())
    assert len(str(gap.value)) < 300


def test_an_oversized_spare_does_not_become_a_segment(tmp_path):
    journal = Journal.open(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert list(journal.recover()) == []
    journal.prepare_ahead()
    assert journal.has_spare
    journal.close()
    os.truncate(tmp_path / "journal" / SPARE_NAME, 40 << 30)
    again = Journal.open(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert list(again.recover()) == []
    assert not again.has_spare
    again.close()


def test_a_huge_sparse_segment_is_refused_or_its_holes_are_skipped(tmp_path):
    journal = Journal.open(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert list(journal.recover()) == []
    write(journal, [90], [700])
    path = segment_path(tmp_path / "journal", 1)
    journal.close()
    (tmp_path / "clean-shutdown").unlink()
    os.truncate(path, 40 << 30)
    with pytest.raises(JournalCorrupt, match=r"0001\.segment has 42949672960 bytes"):
        list(Journal.open(tmp_path, segment_bytes=SEGMENT_BYTES).recover())
    os.truncate(path, 2 << 30)
    began = time.process_time()
    again = Journal.open(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert [len(entry.batch) for entry in again.recover()] == [90, 700]
    again.close()
    assert time.process_time() - began < 0.5, "holes are not read"
