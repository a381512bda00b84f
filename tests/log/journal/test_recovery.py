"""Recovery through a window of any size and from any LSN, and its refusal of invalid frames."""

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.files import window
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.frame import (
    ENTRY_OVERHEAD,
    FRAME_HEADER_SIZE,
    MAGIC,
    RUN_FRAMES_MAX,
    encode_frame,
    entry_key,
)
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.segment import HEADER_SPACE, SPARE_NAME, create_segment, segment_path, split_position
from pipeline_broker.log.segments.policies import DEFAULT_POLICIES
from pipeline_broker.records.checksum import crc32c
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.journal.test_journal import commit, entry_of, start

DATA = Path("/d")
SEGMENT_BYTES = 9000


class Owner:
    entry_key = entry_key(bytes(16), 0)
    policies = DEFAULT_POLICIES


def opened(files):
    return Journal.open(DATA, files=files, segment_bytes=SEGMENT_BYTES)


def write(journal, *commits):
    for sizes in commits:
        entries = [JournalEntry(Owner, 0, 0, 0, (bytes([size % 251]) * size,), size) for size in sizes]
        journal.sync(journal.write(entries))


COMMITS = st.lists(st.lists(st.sampled_from([0, 1, 90, 700, 5000]), min_size=1, max_size=4), max_size=8)


@given(COMMITS, st.sampled_from([HEADER_SPACE, HEADER_SPACE + 1, 4800, 1 << 20]), st.data())
def test_a_window_of_any_size_shows_the_same(commits, window_bytes, data):
    files = MemoryFileSystem()
    journal = opened(files)
    assert list(journal.recover()) == []
    write(journal, *commits)
    sealed = list(journal.sealed())
    ends = [0, *(end for _, end in sealed)]
    if data.draw(st.booleans()):
        files.kill()
    else:
        journal.close()
    archived_lsn = data.draw(st.sampled_from(ends))
    sizes = [size for sizes in commits for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "WINDOW_BYTES", window_bytes)
        journal, found = opened(files), []
        for key, place, batch in journal.recover(archived_lsn):
            assert key == Owner.entry_key
            number, position = split_position(place)
            stored = files.open(segment_path(DATA / "journal", number)).read(len(batch), position)
            assert bytes(stored) == bytes(batch)
            found.append(len(batch))
        assert found == sizes[archived_lsn:]
        assert journal.next_lsn == len(sizes)
        assert list(journal.sealed()) == sealed
        write(journal, [7], [8])
        journal.close()
        assert [len(batch) for _, _, batch in opened(files).recover(archived_lsn)] == [*sizes[archived_lsn:], 7, 8]


@pytest.mark.parametrize("size_bytes", [300, 4500])
@pytest.mark.parametrize("count", [0, 2])
def test_a_frame_with_a_wrong_entry_count_refuses_the_start(monkeypatch, count, size_bytes):
    """The window holds all of a small one, and is made larger for the other."""
    monkeypatch.setattr(window, "WINDOW_BYTES", HEADER_SPACE)
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    write(journal, [size_bytes])
    path = segment_path(journal.directory, 1)
    identity = journal._active.identity
    files.kill()
    file = files.open(path)
    body = bytes(file.read(ENTRY_OVERHEAD + size_bytes, HEADER_SPACE + FRAME_HEADER_SIZE))
    checked = struct.pack("<IIQQQ", len(body), count, identity, 0, 0)
    file.write([struct.pack("<II", MAGIC, crc32c(checked + body)), checked], HEADER_SPACE)
    before = bytes(file.read(1 << 20, 0))
    with pytest.raises(JournalCorrupt, match=rf"{path.name} is damaged at byte {HEADER_SPACE}: "):
        list(opened(files).recover())
    assert bytes(file.read(1 << 20, 0)) == before


def test_zero_filled_space_survives_a_crash():
    """Syncs are faster in it."""
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    journal.prepare_ahead()
    write(journal, [700])
    path = segment_path(journal.directory, 1)
    assert files.open(path).size_bytes() == SEGMENT_BYTES
    files.kill()
    assert len(list(opened(files).recover())) == 1
    assert files.open(path).size_bytes() == SEGMENT_BYTES


@pytest.mark.parametrize("damaged", range(4))
def test_with_flush_os_no_commit_declares_another_one_durable(damaged):
    """So records lost to a power cut in the middle are a torn tail, also after an earlier recovery."""
    files = MemoryFileSystem()
    values = [b"%d!" % number for number in range(4)]
    for two in (values[:2], values[2:]):
        journal, log, _ = start("/d", files, flush="os")
        for value in two:
            commit(journal, log, value)
        files.kill()
    file = files.open(segment_path(journal.directory, 1))
    file.write([b"\0"], bytes(file.read(1 << 20, 0)).index(values[damaged]))
    assert start("/d", files, flush="os")[2] == values[:damaged]


class PowerCut(Exception):
    pass


@pytest.mark.parametrize("seed", range(8))
def test_cut_segments_never_reappear_nor_leave_a_gap_after_any_power_cut(seed):
    """Of two that nothing was written to, the later one may go without the other, and not the other way round."""
    dice, has_ended = random.Random(seed), False
    for number in range(100):
        files, done = MemoryFileSystem(), []
        journal = opened(files)
        list(journal.recover())
        write(journal, [700])
        for later in (2, 3):
            create_segment(files, journal.directory, later)
        files.kill()

        def cut(operation, _path, number=number, done=done):
            done.append(operation)
            if len(done) > number:
                raise PowerCut

        files.before = cut
        try:
            list(opened(files).recover())
            has_ended = True
        except PowerCut:
            pass
        files.before = lambda *_: None
        files.power_cut((lambda _: 0) if has_ended else (lambda most: dice.randint(0, most)))
        if has_ended:
            assert files.list_directory(journal.directory) == [segment_path(journal.directory, 1).name]
            return
        assert len(list(opened(files).recover())) == 1
    raise AssertionError("a start has no end")


@pytest.mark.parametrize("size_bytes", [700, 2 * HEADER_SPACE])
@pytest.mark.parametrize("flush", ["always", "os"])
def test_only_unproven_frames_are_rewritten_and_without_syncs_none(monkeypatch, flush, size_bytes):
    """Recovery reads frames in bounded runs. A later run declares the first ones durable. Bytes after the last frame
    are not rewritten.
    """
    monkeypatch.setattr(window, "WINDOW_BYTES", HEADER_SPACE)
    files = MemoryFileSystem()
    journal = Journal.open(DATA, files=files, segment_bytes=1 << 20)
    list(journal.recover())
    journal.prepare_ahead()
    write(journal, *[[1]] * RUN_FRAMES_MAX, [size_bytes])
    files.kill()
    written = []
    files.write_limit = lambda size_bytes: written.append(size_bytes) or size_bytes
    again = Journal.open(DATA, files=files, segment_bytes=1 << 20, flush=flush)
    assert len(list(again.recover())) == RUN_FRAMES_MAX + 1
    assert written == ([HEADER_SPACE, FRAME_HEADER_SIZE + ENTRY_OVERHEAD + size_bytes] if flush == "always" else [])


@pytest.mark.parametrize("archived_lsn", range(4))
def test_of_frames_that_no_window_holds_those_are_read_that_the_archive_has_not(monkeypatch, archived_lsn):
    monkeypatch.setattr(window, "WINDOW_BYTES", HEADER_SPACE)
    files = MemoryFileSystem()
    journal = Journal.open(DATA, files=files, segment_bytes=1 << 20)
    list(journal.recover())
    write(journal, [1], [5001], [5002])
    files.kill()
    assert [len(batch) for _, _, batch in opened(files).recover(archived_lsn)] == [1, 5001, 5002][archived_lsn:]


@pytest.mark.parametrize("is_torn", [False, True])
def test_nothing_is_read_after_a_segment_without_frames(is_torn):
    """It was never acknowledged: to keep it would leave a gap in the numbers."""
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    write(journal, [700])
    create_segment(files, journal.directory, 2)
    identity = create_segment(files, journal.directory, 3).identity
    files.kill()
    if is_torn:
        files.open(segment_path(journal.directory, 2)).write([b"x"], 0)
    entry = JournalEntry(Owner, 0, 0, 0, (b"later",), 5)
    files.open(segment_path(journal.directory, 3)).write(encode_frame([entry], identity, 1, 1, 0), HEADER_SPACE)
    journal = opened(files)
    assert [len(batch) for _, _, batch in journal.recover()] == [700]
    assert journal.next_lsn == 1
    assert files.list_directory(journal.directory) == [segment_path(journal.directory, 1).name]


def test_the_first_frame_of_a_later_segment_declares_entries_durable_too():
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    write(journal, [700])
    identity = create_segment(files, journal.directory, 2).identity
    files.kill()
    files.open(segment_path(journal.directory, 2)).write(encode_frame([], identity, 2, 2, 0), HEADER_SPACE)
    with pytest.raises(JournalCorrupt, match="entries 1 to 1 were durable"):
        list(opened(files).recover())


@pytest.mark.parametrize("numbers", [[1], [1, 2], [7, 8]])
def test_a_journal_with_a_torn_first_segment_restarts_with_its_number(numbers):
    files = MemoryFileSystem()
    journal = opened(files)
    for number in numbers:
        create_segment(files, journal.directory, number)
        files.open(segment_path(journal.directory, number)).write([b"x"], 0)
    assert list(journal.recover()) == []
    assert files.list_directory(journal.directory) == [segment_path(journal.directory, numbers[0]).name]
    write(journal, [90])
    files.kill()
    assert len(list(opened(files).recover())) == 1


@pytest.mark.parametrize("change", ["nothing", "another segment", "a longer archive"])
def test_after_a_stop_in_order_the_journal_ends_as_it_was_left_or_the_start_is_refused(change):
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    write(journal, [700], [90])
    journal.close()
    if change == "another segment":
        create_segment(files, journal.directory, 2)
    again = opened(files)
    if change == "nothing":
        assert len(list(again.recover())) == 2
    else:
        reason = "entry 2, but at the clean shutdown its last entry was 1"
        if change == "another segment":
            reason = "ends with entry 1 as at the clean shutdown, but its segments have changed since; nothing"
        with pytest.raises(JournalCorrupt, match=reason):
            list(again.recover(3 if change == "a longer archive" else 0))


@pytest.mark.parametrize("inside", range(6))
def test_a_frame_across_the_end_of_a_window_declares_entries_durable_too(monkeypatch, inside):
    """The parameter is the number of its bytes in the first window after the damage."""
    monkeypatch.setattr(window, "WINDOW_BYTES", HEADER_SPACE)
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    write(journal, [HEADER_SPACE - inside - FRAME_HEADER_SIZE - ENTRY_OVERHEAD], [1])
    path = segment_path(journal.directory, 1)
    files.kill()
    files.open(path).write([b"x"], HEADER_SPACE)
    with pytest.raises(JournalCorrupt, match="entries 0 to 0 were durable"):
        list(opened(files).recover())


@pytest.mark.parametrize("size_bytes", [700, HEADER_SPACE])
def test_a_frame_inside_a_batch_is_not_read_as_a_frame(monkeypatch, size_bytes):
    """A producer may send bytes that declare anything durable. They must not refuse the start after a torn tail."""
    monkeypatch.setattr(window, "WINDOW_BYTES", HEADER_SPACE)
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    trap = b"".join(encode_frame([], journal._active.identity, 0, 99, 0))
    value = (bytes(50) + trap).ljust(size_bytes, b"x")
    journal.write([JournalEntry(Owner, 0, 0, 0, (b"torn",), 4)])
    journal.sync(journal.write([JournalEntry(Owner, 0, 0, 0, (value,), size_bytes)]))
    path = segment_path(journal.directory, 1)
    files.kill()
    files.open(path).write([b"x"], HEADER_SPACE)
    assert list(opened(files).recover()) == []


@pytest.mark.parametrize("inside", range(6))
def test_a_frame_at_the_very_end_of_a_segment_declares_entries_durable_too(monkeypatch, inside):
    """The parameter is the number of its bytes in the first window after the damage."""
    monkeypatch.setattr(window, "WINDOW_BYTES", HEADER_SPACE)
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    write(journal, [HEADER_SPACE - inside - FRAME_HEADER_SIZE - ENTRY_OVERHEAD])
    path = segment_path(journal.directory, 1)
    end = files.open(path).size_bytes()
    files.kill()
    frame = b"".join(encode_frame([], journal._active.identity, 1, 1, 0))
    files.open(path).write([frame], end)
    files.open(path).write([b"x"], HEADER_SPACE)
    with pytest.raises(JournalCorrupt, match="entries 0 to 0 were durable"):
        list(opened(files).recover())


@pytest.mark.parametrize("more", [b"", b"x"])
def test_a_torn_header_means_an_unused_segment_unless_bytes_follow_it(more):
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    write(journal, [700])
    create_segment(files, journal.directory, 2)
    path = segment_path(journal.directory, 2)
    files.kill()
    files.open(path).write([b"x"], 0)
    files.open(path).write([more], HEADER_SPACE)
    if more:
        with pytest.raises(JournalCorrupt, match=f"the header of .*{path.name} is damaged"):
            list(opened(files).recover())
    else:
        assert len(list(opened(files).recover())) == 1
        assert path.name not in files.list_directory(journal.directory)


def test_a_torn_tail_is_read_once_however_often_a_frame_seems_to_begin_in_it():
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    value = struct.pack("<I", MAGIC) * 1000
    journal.sync(journal.write([JournalEntry(Owner, 0, 0, 0, (value,), len(value))]))
    path = segment_path(journal.directory, 1)
    files.kill()
    files.open(path).write([b"x"], HEADER_SPACE)
    read = []
    files.before = lambda operation, path: read.append(path) if operation == "read" else None
    assert list(opened(files).recover()) == []
    assert read.count(path) < 50


def test_a_spare_without_a_header_is_ignored():
    files = MemoryFileSystem()
    journal = opened(files)
    list(journal.recover())
    journal.prepare_ahead()
    assert journal.has_spare
    files.kill()
    files.open(journal.directory / SPARE_NAME).write([b"x"], 0)
    journal = opened(files)
    list(journal.recover())
    assert not journal.has_spare
    assert SPARE_NAME not in files.list_directory(journal.directory)


def test_unsynced_writes_of_a_killed_process_are_durable_after_recovery():
    files = MemoryFileSystem()
    journal, log, _ = start(DATA, files)
    commit(journal, log, b"synced")
    journal.write([entry_of(log, b"written")])
    files.kill()
    for end in (lambda: files.power_cut(lambda _: 0), files.kill):
        _, _, found = start(DATA, files)
        assert found == [b"synced", b"written"]
        end()


def test_the_first_commit_after_startup_is_written_to_the_recovered_file():
    files = MemoryFileSystem()
    journal, log, _ = start(DATA, files)
    commit(journal, log, b"before")
    files.kill()
    journal, log, _ = start(DATA, files)
    asked = []
    files.before = lambda operation, _path: asked.append(operation)
    commit(journal, log, b"after")
    assert set(asked) == {"write", "sync"}
