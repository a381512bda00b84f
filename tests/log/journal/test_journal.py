"""The journal by itself: failing disks, rolling, threads, and damage that must not be taken for a torn tail."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline_broker.files.errors import DirectoryLocked
from pipeline_broker.log.errors import JournalCorrupt, JournalFailed
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME
from pipeline_broker.log.journal.journal import Journal, JournalPorts
from pipeline_broker.log.journal.segment import HEADER_SPACE, segment_path
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.record import iterate_records
from tests.files.memory_file_system import MemoryFileSystem

TOPIC_ID = bytes(range(16))


def start(directory, files=None, **options):
    """Return a journal, a log of one partition and the recovered entries."""
    journal = Journal.open(Path(directory), files=files, **options)
    manager = LogManager(journal)
    (log,) = manager.create("topic", TOPIC_ID, 1)
    values = []
    try:
        manager.recover(lambda _, header, data: values.extend(r.value for r in iterate_records(data, header)), now_ms=0)
    except JournalCorrupt:
        journal.close()
        raise
    return journal, log, values


def entry_of(log, value):
    batch = build_batch([NewRecord(value)])
    return log.append(read_header(batch), batch, now_ms=0).entry


def commit(journal, log, value):
    ticket = journal.write([entry_of(log, value)])
    journal.sync(ticket)
    return ticket


def failing(files, failing_operation, code=errno.EIO):
    def before(operation, _path):
        if operation == failing_operation:
            raise OSError(code, os.strerror(code))

    files.before, healthy = before, files.before
    return healthy


def test_commits_are_recovered_from_real_files(tmp_path):
    journal, log, found = start(tmp_path, segment_bytes=64 << 10)
    assert found == []
    journal.prepare_ahead()
    for number in range(30):
        commit(journal, log, b"%d" % number * 3000)
    assert journal.segment_count > 2
    journal.close()

    _, log, found = start(tmp_path)

    assert [b"%d" % number * 3000 for number in range(30)] == found
    assert log.high_watermark == 30


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_after_a_failed_write_or_sync_everything_fails(operation):
    files = MemoryFileSystem()
    journal, log, _ = start("/d", files)
    commit(journal, log, b"before")
    written = journal.write([entry_of(log, b"in flight")])
    healthy = failing(files, operation)
    with pytest.raises(JournalFailed):
        commit(journal, log, b"failing")

    files.before = healthy

    with pytest.raises(JournalFailed):
        journal.write([entry_of(log, b"later")])
    with pytest.raises(JournalFailed):
        journal.write([])
    with pytest.raises(JournalFailed):
        journal.sync(written)
    journal.close()


def test_entries_of_a_failed_sync_are_on_disk_once_the_next_startup_returns_them():
    """The kernel takes the pages that it lost for written: they can be read, and later syncs succeed without them."""
    files = MemoryFileSystem()
    journal, log, _ = start("/data", files)
    commit(journal, log, b"acknowledged")
    healthy = failing(files, "sync")
    with pytest.raises(JournalFailed):
        commit(journal, log, b"lost")
    files.before = healthy
    files.kill()
    journal, log, found = start("/data", files)
    assert found == [b"acknowledged", b"lost"]
    commit(journal, log, b"behind")
    files.power_cut(lambda _: 0)
    assert start("/data", files)[2] == [b"acknowledged", b"lost", b"behind"]


def test_a_failed_sync_fails_every_commit_in_flight():
    """The kernel tells of a lost write once: had the commits one file in common, one of them would succeed."""
    files = MemoryFileSystem()
    journal, log, _ = start("/d", files)
    tickets = [journal.write([entry_of(log, b"x")]) for _ in range(3)]
    healthy = failing(files, "sync")
    with pytest.raises(OSError, match="Input/output"):
        tickets[1].file.sync_data()
    files.before = healthy

    for ticket in (tickets[0], tickets[2]):
        with pytest.raises(JournalFailed):
            journal.sync(ticket)


@pytest.mark.parametrize("operation", ["create", "sync directory"])
def test_a_segment_that_cannot_be_created_fails_the_journal(operation):
    files = MemoryFileSystem()
    journal, log, _ = start("/d", files, segment_bytes=8 << 10)
    commit(journal, log, bytes(5000))
    failing(files, operation, errno.ENOSPC)

    with pytest.raises(JournalFailed, match="No space"):
        commit(journal, log, bytes(5000))


def test_a_spare_that_cannot_be_prepared_leaves_the_journal_as_it_was():
    files = MemoryFileSystem()
    journal, log, _ = start("/d", files)
    healthy = failing(files, "create", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        journal.prepare_ahead()
    files.before = healthy

    commit(journal, log, b"still works")
    journal.prepare_ahead()
    assert journal.has_spare


def test_a_spare_that_fails_half_way_can_be_prepared_again():
    files = MemoryFileSystem()
    journal, *_ = start("/d", files, segment_bytes=4 << 20)
    writes = []

    def before(operation, _path):
        writes.append(operation)
        if operation == "write" and writes.count("write") == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.before, healthy = before, files.before
    with pytest.raises(OSError, match="No space"):
        journal.prepare_ahead()
    files.before = healthy
    assert set(files.list_directory(journal.directory)) == {"00000000000000000001.segment"}

    journal.prepare_ahead()
    assert journal.has_spare


def test_the_last_free_space_is_left_to_commits():
    """A spare is comfort: written into a nearly full disk it would make the next commit fail."""
    files = MemoryFileSystem()
    journal, log, _ = start("/d", files, segment_bytes=1 << 20)
    files.free = (2 << 20) - 1
    with pytest.raises(OSError, match="too little free space"):
        journal.prepare_ahead()
    assert not journal.has_spare
    commit(journal, log, b"still works")

    files.free += 1
    journal.prepare_ahead()
    assert journal.has_spare


def test_short_writes_are_continued():
    """Case 18."""
    files = MemoryFileSystem()
    journal, log, _ = start("/d", files)
    files.write_limit = lambda size_bytes: min(size_bytes, 7)
    commit(journal, log, b"a record of more than seven bytes")
    files.write_limit = lambda size_bytes: size_bytes
    files.power_cut(lambda n: 0)

    assert start("/d", files)[2] == [b"a record of more than seven bytes"]


def test_a_commit_of_more_parts_than_one_call_takes_is_written_whole():
    files = MemoryFileSystem()
    journal, log, _ = start("/d", files)
    entries = [entry_of(log, bytes(70_000)) for _ in range(700)]
    journal.sync(journal.write(entries))
    files.kill()

    assert len(start("/d", files)[2]) == 700


def test_the_first_write_after_preparing_goes_to_the_prepared_space(tmp_path):
    journal, log, _ = start(tmp_path, segment_bytes=64 << 10)
    assert journal.segment_count == 1
    journal.prepare_ahead()

    commit(journal, log, b"value")

    assert journal.segment_count == 1, "it takes the place of the one that nothing was written to"
    assert segment_path(journal.directory, 1).stat().st_size == 64 << 10
    journal.close()
    assert segment_path(journal.directory, 1).stat().st_size < HEADER_SPACE + 1000


def test_a_spare_survives_a_restart():
    files = MemoryFileSystem()
    journal, *_ = start("/d", files)
    journal.prepare_ahead()
    files.kill()

    assert start("/d", files)[0].has_spare


def test_a_half_full_segment_requests_a_spare():
    files = MemoryFileSystem()
    asked = []
    ports = JournalPorts(prepare_wanted=lambda: asked.append(journal.segment_count))
    journal, log, _ = start("/d", files, segment_bytes=20_000, ports=ports)

    for _ in range(8):
        commit(journal, log, bytes(4000))

    assert asked[:3] == [1, 2, 3]


def test_a_second_journal_on_the_directory_refuses(tmp_path):
    journal = Journal.open(tmp_path)
    with pytest.raises(DirectoryLocked, match=str(os.getpid())):
        Journal.open(tmp_path)
    journal.close()
    Journal.open(tmp_path).close()


def test_a_closed_journal_writes_nothing(tmp_path):
    journal, log, _ = start(tmp_path)
    journal.close()
    with pytest.raises(JournalFailed, match="closed"):
        journal.write([entry_of(log, b"late")])


def flip(path, position):
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("place", [HEADER_SPACE + 2, HEADER_SPACE + 9, HEADER_SPACE + 60, 17, 3])
def test_damage_before_durable_frames_refuses_the_start_and_changes_nothing(tmp_path, place):
    """Case 30."""
    journal, log, _ = start(tmp_path)
    for number in range(3):
        commit(journal, log, b"%d" % number)
    journal.close()
    path = segment_path(journal.directory, 1)
    flip(path, place)
    damaged = path.read_bytes()

    with pytest.raises(JournalCorrupt):
        start(tmp_path)
    assert damaged == path.read_bytes()

    flip(path, place)
    assert start(tmp_path)[2] == [b"0", b"1", b"2"]


def test_damage_in_an_earlier_segment_refuses_the_start(tmp_path):
    journal, log, _ = start(tmp_path, segment_bytes=8 << 10)
    for _ in range(4):
        commit(journal, log, bytes(3000))
    assert journal.segment_count > 2
    journal.close()
    flip(segment_path(journal.directory, 1), HEADER_SPACE + 500)

    with pytest.raises(JournalCorrupt, match="durable"):
        start(tmp_path)


def test_a_missing_segment_refuses_the_start(tmp_path):
    journal, log, _ = start(tmp_path, segment_bytes=8 << 10)
    for _ in range(4):
        commit(journal, log, bytes(3000))
    journal.close()
    segment_path(journal.directory, 1).unlink()

    with pytest.raises(JournalCorrupt, match="missing"):
        start(tmp_path)


@pytest.mark.parametrize("tail", [bytes(5000), b"\xff" * 5000, b"PBPJ" * 1000, b"PBPJ" + b"\xff" * 60])
def test_a_tail_of_garbage_is_cut(tmp_path, tail):
    """Case 13."""
    journal, log, _ = start(tmp_path)
    commit(journal, log, b"value")
    journal.close()
    path = segment_path(journal.directory, 1)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(tail)

    journal, log, found = start(tmp_path)

    assert found == [b"value"]
    assert path.stat().st_size == size or not any(tail)
    commit(journal, log, b"next")
    journal.close()
    assert start(tmp_path)[2] == [b"value", b"next"]


@pytest.mark.parametrize("flush", ["always", "os"])
def test_damage_in_the_last_commit_is_noticed_after_a_clean_stop(tmp_path, flush):
    journal, log, _ = start(tmp_path, flush=flush)
    ticket = commit(journal, log, b"value")
    journal.close()
    flip(segment_path(journal.directory, 1), HEADER_SPACE + ticket.size_bytes - 1)

    with pytest.raises(JournalCorrupt, match="entries 0 to 0 were durable"):
        start(tmp_path)


def test_intact_frames_of_another_segment_are_ignored(tmp_path):
    """Recycled space: frames with the right LSN, but written for another identity."""
    ends = {}
    for name in ("old", "new"):
        journal, log, _ = start(tmp_path / name, flush="os")
        ends[name] = HEADER_SPACE + commit(journal, log, name.encode()).size_bytes
        commit(journal, log, name.encode() * 2)
        journal.close()
    assert ends["old"] == ends["new"]
    old, new = (segment_path(tmp_path / name / "journal", 1) for name in ("old", "new"))
    new.write_bytes(new.read_bytes()[: ends["new"]] + old.read_bytes()[ends["old"] :])

    (tmp_path / "new" / MARK_NAME).unlink()  # the shutdown is not tested here

    assert start(tmp_path / "new", flush="os")[2] == [b"new"]


@pytest.mark.parametrize("flush", ["always", "os"])
def test_threads_commit_side_by_side(tmp_path, flush):
    """Each thread syncs its own commit. All commits are recovered in LSN order."""
    journal, log, _ = start(tmp_path, flush=flush, segment_bytes=128 << 10)
    lock = threading.Lock()
    order = []

    def work(worker):
        for number in range(50):
            value = b"%d-%d" % (worker, number) + bytes(2000)
            with lock:  # append and write of a partition belong together, as the committer's queue has them
                order.append(value)
                ticket = journal.write([entry_of(log, value)])
            journal.sync(ticket)

    preparing = threading.Thread(target=journal.prepare_ahead)
    preparing.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    preparing.join()
    journal.close()

    assert order == start(tmp_path)[2]


def test_it_reports_its_directory_and_the_disk_space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    journal, *_ = start("data")
    assert journal.data_directory == tmp_path / "data"
    total_bytes, free_bytes = journal.disk_space()
    assert total_bytes > free_bytes > 0
    journal.close()


def test_reads_of_many_segments_keep_few_files_open(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.journal.journal_files.OPEN_FILES_MAX", 2)
    journal, log, _ = start(tmp_path, segment_bytes=8 << 10)
    entries = [entry_of(log, bytes([number]) * 3000) for number in range(12)]
    for entry in entries:
        journal.sync(journal.write([entry]))
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    for entry in entries * 2:
        assert b"".join(entry.parts) == journal.read(entry.position, entry.size_bytes)
    assert len(list(descriptors.iterdir())) <= before + 2
    journal.close()
