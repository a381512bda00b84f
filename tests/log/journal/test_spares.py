"""Spare segments: when one is requested, and when a commit uses it."""

import errno
import os
from pathlib import Path

import pytest

from pipeline_broker.log.journal import journal as tested
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD, FRAME_HEADER_SIZE, entry_key
from pipeline_broker.log.journal.journal import Journal, JournalPorts
from pipeline_broker.log.journal.segment import HEADER_SPACE, segment_path
from pipeline_broker.log.segments.policies import DEFAULT_POLICIES
from tests.files.memory_file_system import MemoryFileSystem

SEGMENT_BYTES = 2 * (HEADER_SPACE + 2000)
LEAST_BYTES = FRAME_HEADER_SIZE + ENTRY_OVERHEAD


class Owner:
    entry_key = entry_key(bytes(16), 0)
    policies = DEFAULT_POLICIES


class Setting:
    """A journal, the commits after which it requested a spare, and its file operations."""

    def __init__(self, segment_bytes=SEGMENT_BYTES, **options):
        self.asked, self.count, self.done = [], 0, []
        self.files = files = MemoryFileSystem()
        files.before = lambda operation, _path: self.done.append(operation)
        ports = JournalPorts(prepare_wanted=lambda: self.asked.append(self.count))
        self.journal = Journal.open(Path("/d"), files=files, segment_bytes=segment_bytes, ports=ports, **options)
        assert list(self.journal.recover()) == []

    def commit(self, *frames, nowait=False):
        """Commit frames of the given sizes in bytes; return whether all were written."""
        write = self.journal.write_nowait if nowait else self.journal.write
        for size_bytes in frames:
            self.count += 1
            size = size_bytes - LEAST_BYTES
            ticket = write([JournalEntry(Owner, 0, 0, 0, (bytes(size),), size)])
            if ticket is None:
                return False
            assert ticket.size_bytes == size_bytes
            self.journal.sync(ticket)
        return True

    @property
    def place(self):
        """The number of the segment, and how much of it is used."""
        return self.journal._active.number, self.journal._position


@pytest.mark.parametrize("nowait", [False, True])
def test_a_spare_is_requested_once_when_a_segment_is_half_full(nowait):
    it = Setting()
    it.commit(2000, nowait=nowait)
    assert (it.place, it.asked) == ((1, SEGMENT_BYTES // 2), [])
    it.commit(LEAST_BYTES, LEAST_BYTES, nowait=nowait)
    assert it.asked == [2]
    it.commit(SEGMENT_BYTES - HEADER_SPACE)
    assert it.asked == [2, 4], "the next segment asks again"


@pytest.mark.parametrize("nowait", [False, True])
def test_a_spare_is_requested_at_half_of_the_maximum_entries(monkeypatch, nowait):
    monkeypatch.setattr(tested, "SEGMENT_ENTRIES_MAX", 6)
    it = Setting()
    it.commit(*[LEAST_BYTES] * 6, nowait=nowait)
    assert it.asked == [4]
    assert it.place[0] == 1
    assert it.commit(LEAST_BYTES, nowait=nowait) is not nowait, "a write without waiting begins no segment"
    it.commit(LEAST_BYTES)
    assert it.place[0] == 2


def test_a_segment_is_filled_to_its_last_byte():
    it = Setting()
    it.commit(2000, SEGMENT_BYTES - HEADER_SPACE - 2000)
    assert it.place == (1, SEGMENT_BYTES)
    it.commit(2000, SEGMENT_BYTES - HEADER_SPACE - 2000 + 1)
    assert it.place == (3, SEGMENT_BYTES - 2000 + 1)
    it.commit(SEGMENT_BYTES)
    assert it.place == (4, HEADER_SPACE + SEGMENT_BYTES), "one commit is in one segment, whatever its size"
    assert it.journal.segment_count == 4


def test_no_spare_is_requested_while_commits_are_large_on_average(monkeypatch):
    """Of the last 16 or so."""
    monkeypatch.setattr(tested, "LARGE_WRITE_BYTES_MIN", 1000)
    for size_bytes, asked in ((15_999, [1]), (16_000, [])):
        it = Setting(16_000 + HEADER_SPACE)
        it.commit(size_bytes)
        assert it.asked == asked
    it = Setting(SEGMENT_BYTES)
    it.commit(*[2000] * 30)
    assert it.asked[-1] < 20
    it.asked.clear()
    it.commit(*[500] * 30)
    assert it.asked


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_spare_is_used_as_soon_as_it_is_ready(is_empty):
    """A segment that nothing was written to gives it its number."""
    it = Setting()
    if not is_empty:
        it.commit(100)
    it.journal.prepare_ahead()
    assert it.journal.has_spare
    assert not it.commit(100, nowait=True)
    it.commit(100)
    assert it.place == (1 if is_empty else 2, HEADER_SPACE + 100)
    assert not it.journal.has_spare
    it.journal.prepare_ahead()
    assert it.commit(100, nowait=True), "a segment that is filled with zeros is as good as another one"
    assert it.place[0] == (1 if is_empty else 2)


def test_no_second_spare_is_requested():
    it = Setting()
    it.journal.prepare_ahead()
    it.commit(LEAST_BYTES)
    it.journal.prepare_ahead()
    it.commit(2000, LEAST_BYTES, LEAST_BYTES)
    assert (it.place[0], it.asked) == (1, [])


@pytest.mark.parametrize("nowait", [False, True])
def test_a_spare_is_left_to_small_commits(monkeypatch, nowait):
    monkeypatch.setattr(tested, "LARGE_WRITE_BYTES_MIN", 120)
    it = Setting(1 << 16)
    it.commit(2000)
    it.journal.prepare_ahead()
    assert it.commit(2000, nowait=nowait)
    assert it.place[0] == 1
    while it.place[0] == 1:
        it.commit(LEAST_BYTES)
    assert it.count > 10, "those that follow large ones are not small on average yet"


@pytest.mark.parametrize("nowait", [False, True])
def test_a_spare_is_not_used_while_too_many_segments_wait_for_the_archive(nowait):
    it = Setting()
    it.journal.attach_archiver(1)
    it.commit(2000)
    it.journal.seal()
    it.commit(100)
    it.journal.prepare_ahead()
    assert it.commit(100, nowait=nowait)
    assert (it.place[0], it.journal.has_spare) == (2, True)
    it.journal.recycle(1)
    assert it.commit(100)
    assert (it.place[0], it.journal.has_spare) == (3, False)


def test_a_spare_is_requested_again_after_an_obstacle():
    """It met the same one."""
    it = Setting()
    it.journal.attach_archiver(10)
    it.journal.room.retry_seconds = 0.001
    it.commit(2000, LEAST_BYTES, LEAST_BYTES)
    assert it.asked == [2]
    refused = []

    def refuse_once(operation, _path):
        if operation == "write" and not refused:
            refused.append(operation)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    it.files.before = refuse_once
    it.commit(LEAST_BYTES, LEAST_BYTES)
    assert (refused, it.asked) == (["write"], [2, 4])


def test_a_ready_spare_is_not_prepared_again():
    it = Setting()
    it.journal.prepare_ahead()
    it.done.clear()
    it.journal.prepare_ahead()
    assert it.done == []


def test_a_durable_commit_can_be_synced_again():
    it = Setting()
    ticket = it.journal.write([JournalEntry(Owner, 0, 0, 0, (b"",), 0)])
    it.journal.sync(ticket)
    it.done.clear()
    it.journal.sync(ticket)
    assert it.done == []


def test_a_closed_journal_prepares_no_spare():
    it = Setting()
    it.journal.close()
    it.done.clear()
    it.journal.prepare_ahead()
    assert it.done == []


def test_an_interrupted_spare_does_not_become_one_of_the_next_owner():
    it = Setting()
    it.commit(100)
    it.journal.seal()
    it.journal.close()
    it.journal.recycle(1)
    assert it.files.list_directory(it.journal.directory) == [segment_path(it.journal.directory, 2).name]


@pytest.mark.parametrize("flush", ["always", "os"])
def test_finished_commits_share_one_file(flush):
    it = Setting(1 << 20, flush=flush)
    it.commit(100)
    it.done.clear()
    it.commit(*[100] * 5)
    assert "open" not in it.done


def test_an_empty_commit_writes_nothing():
    it = Setting()
    assert it.journal.write_nowait([]) is None
    ticket = it.journal.write([])
    assert (ticket.first_lsn, ticket.entry_count, ticket.size_bytes) == (0, 0, 0)
    it.commit(100)
    assert it.journal.write([]).first_lsn == 1
