"""Complete segments of the journal: reading once they are durable, and reuse of their space.

Longer than most files: all tests use the same few calls.
"""

import threading
from pathlib import Path

import pytest

from pipeline_broker.log.errors import JournalCorrupt, JournalFailed, RecycledError
from pipeline_broker.log.journal.journal import Journal, JournalPorts
from pipeline_broker.log.journal.segment import (
    HEADER_SPACE,
    SPARE_NAME,
    decode_header,
    recycle_segment,
    segment_path,
    split_position,
)
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.records.record import iterate_records
from tests.files.memory_file_system import MemoryFileSystem

TOPIC_ID = bytes(range(16))
DIRECTORY = Path("/data")
SEGMENT_BYTES = 12 << 10  # two of the batches below
VALUE = bytes(3000)
WAIT_SECONDS = 10.0


def start(files, *, archived_lsn=0, segment_bytes=SEGMENT_BYTES, **options):
    journal = Journal.open(DIRECTORY, files=files, segment_bytes=segment_bytes, **options)
    (log,) = LogManager(journal).create("topic", TOPIC_ID, 1)
    found = []
    for _, place, batch in journal.recover(archived_lsn):
        log.replay(read_header(batch), place, 0, batch)
        found += [bytes(record.value) for record in iterate_records(batch, read_header(batch))]
    return journal, log, found


def entry_of(log, value):
    batch = build_batch([NewRecord(value)])
    return log.append(read_header(batch), batch, now_ms=0).entry


def commit(journal, log, value=VALUE):
    entry = entry_of(log, value)
    journal.sync(journal.write([entry]))
    return entry


def values_of(journal, number, end_lsn, from_lsn=0):
    return [
        bytes(record.value)
        for _, _, batch in journal.sealed_entries(number, end_lsn, from_lsn)
        for record in iterate_records(batch, read_header(batch))
    ]


def test_a_complete_segment_returns_its_entries():
    journal, log, _ = start(MemoryFileSystem())
    commit(journal, log, b"one")
    assert journal.sealed() == []
    journal.seal()
    commit(journal, log, b"two")

    assert journal.sealed() == [(1, 1)]
    assert values_of(journal, 1, 1) == [b"one"]


def test_archived_entries_of_a_continued_segment_are_not_returned_again():
    """Startup continues in the last segment with frames, which may be archived if the one after it was empty."""
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    commit(journal, log, b"one")
    commit(journal, log, b"two")
    journal.seal()
    files.kill()
    journal, log, found = start(files)
    assert found == [b"one", b"two"]
    commit(journal, log, b"three")
    journal.seal()

    ((number, end_lsn),) = journal.sealed()
    assert (number, end_lsn) == (1, 3)
    assert values_of(journal, number, end_lsn, from_lsn=2) == [b"three"]
    assert values_of(journal, number, end_lsn, from_lsn=3) == []


def test_a_segment_with_a_commit_that_is_not_durable_is_not_handed_out():
    journal, log, _ = start(MemoryFileSystem())
    ticket = journal.write([entry_of(log, b"one")])
    journal.seal()
    assert journal.sealed() == []

    journal.sync(ticket)
    assert journal.sealed() == [(1, 1)]


def test_the_sync_of_a_later_commit_does_not_cover_an_earlier_one_in_a_complete_segment():
    journal, log, _ = start(MemoryFileSystem())
    earlier = journal.write([entry_of(log, b"one")])
    journal.seal()
    journal.sync(journal.write([entry_of(log, b"two")]))
    assert journal.sealed() == []

    journal.sync(earlier)
    assert journal.sealed() == [(1, 1)]


def test_a_reader_of_a_segment_that_becomes_a_spare_gets_recycled_error():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    entry = commit(journal, log)
    commit(journal, log)
    journal.seal()
    operations = []

    def read(operation, _):
        if operation in ("rename", "write", "unlink"):
            operations.append(operation)
            with pytest.raises(RecycledError):
                journal.read(entry.position, entry.size_bytes)

    files.before = read
    journal.recycle(1)
    assert operations


def test_with_flush_os_written_entries_are_returned():
    journal, log, _ = start(MemoryFileSystem(), flush="os")
    journal.write([entry_of(log, b"one")])
    journal.seal()

    assert journal.sealed() == [(1, 1)]


def test_an_empty_segment_is_not_sealed():
    journal, *_ = start(MemoryFileSystem())
    journal.seal()
    journal.seal()

    assert journal.sealed() == []
    assert journal.segment_count == 1


def test_a_complete_segment_calls_its_callback():
    told = []
    ports = JournalPorts(segment_sealed=lambda: told.append(journal.segment_count))
    journal, log, _ = start(MemoryFileSystem(), ports=ports)
    for _ in range(3):
        commit(journal, log)

    assert told == [2]


def test_a_segment_ends_at_its_maximum_number_of_entries(monkeypatch):
    """They cost a start time by their number."""
    monkeypatch.setattr("pipeline_broker.log.journal.journal.SEGMENT_ENTRIES_MAX", 4)
    files = MemoryFileSystem()
    asked = []
    journal, log, _ = start(files, ports=JournalPorts(prepare_wanted=lambda: asked.append(journal.next_lsn)))
    for _ in range(6):
        commit(journal, log, b"")
    journal.close()
    journal, log, _ = start(files)  # which counts the entries of the segment that it continues
    for _ in range(3):
        commit(journal, log, b"")
    journal.sync(journal.write([entry_of(log, b"") for _ in range(9)]))  # one commit is in one segment

    assert journal.sealed() == [(1, 4), (2, 8), (3, 9)]
    assert asked == [3], "the next segment is prepared when half of them are there"


def test_complete_segments_are_known_after_a_restart():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    for _ in range(5):
        commit(journal, log)
    sealed = journal.sealed()
    assert len(sealed) == 2
    journal.close()

    journal, _, found = start(files)
    assert len(found) == 5
    assert journal.sealed() == sealed


def test_the_space_of_a_segment_is_used_again_without_being_zeroed():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    for number in range(5):
        commit(journal, log, bytes([number + 1]) * 3000)
        if number == 1:
            journal.prepare_ahead()  # the first segment grew, and was filled up; the second is prepared
    journal.recycle(1)
    assert journal.has_spare
    before = bytes(files.open(DIRECTORY / "journal" / SPARE_NAME).read(SEGMENT_BYTES, 0))
    assert bytes([1]) * 3000 in before
    journal.recycle(2)
    assert segment_path(DIRECTORY, 2).name not in files.list_directory(DIRECTORY / "journal")
    for number in range(5, 9):
        commit(journal, log, bytes([number]) * 3000)
    assert journal.sealed()


def test_a_spare_is_valid_after_any_power_cut():
    """Its new identity is on the disk before its name is, or frames of its earlier life would be alive again."""
    files = MemoryFileSystem()
    folder = DIRECTORY / "journal"
    journal, log, _ = start(files)
    for _ in range(5):
        commit(journal, log)
    before = identity_of(files, segment_path(folder, 1))
    identity = recycle_segment(files, folder, segment_path(folder, 1), SEGMENT_BYTES)
    files.power_cut(lambda most: 0)  # only synced writes survive
    assert identity_of(files, folder / SPARE_NAME) == identity != before
    assert recycle_segment(files, folder, segment_path(folder, 1), SEGMENT_BYTES) is None, "it is recycled"


def identity_of(files, path):
    return decode_header(bytes(files.open(path).read(HEADER_SPACE, 0)))


def test_frames_of_an_earlier_life_stay_dead():
    """The recycled segment is half full, and the frames after that have another identity. Case 13."""
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    for number in range(6):
        journal.prepare_ahead()
        commit(journal, log, bytes([number]) * 3000)
    lsn = journal.sealed()[-1][1]
    for number, _ in journal.sealed():
        journal.recycle(number)
    journal.seal()
    commit(journal, log, b"new")
    files.kill()

    _, _, found = start(files, archived_lsn=lsn)
    assert found[-1] == b"new"
    assert len(found) == 7 - lsn


def test_archived_entries_still_in_the_journal_are_not_replayed():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    commit(journal, log, b"one")
    journal.seal()
    commit(journal, log, b"two")
    files.kill()

    assert start(files, archived_lsn=1)[2] == [b"two"]


def test_a_journal_that_begins_after_the_archive_ends_is_refused():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    for value in (b"one", b"two", b"three"):
        commit(journal, log, value)
        journal.seal()
    journal.recycle(1)
    journal.recycle(2)
    files.kill()

    with pytest.raises(JournalCorrupt, match="begins with entry 2, but the archive ends with entry 0"):
        start(files, archived_lsn=1)
    files.kill()
    assert start(files, archived_lsn=2)[2] == [b"three"]


def test_an_empty_journal_continues_with_the_lsn_of_the_archive():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    commit(journal, log, b"one")
    journal.seal()
    journal.recycle(1)
    files.kill()

    journal, log, found = start(files, archived_lsn=1)
    assert (found, journal.next_lsn) == ([], 1)
    commit(journal, log, b"two")
    files.kill()
    assert start(files, archived_lsn=1)[2] == [b"two"]


def test_a_damaged_segment_is_not_handed_out_as_if_it_were_whole():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    commit(journal, log, b"one")
    commit(journal, log, b"two")
    journal.seal()
    file = files.open(segment_path(DIRECTORY / "journal", 1))
    file.write([b"\0"], bytes(file.read(file.size_bytes(), 0)).index(b"two"))

    with pytest.raises(JournalCorrupt, match="entries 1 to 1 cannot be read"):
        values_of(journal, 1, 2)


def test_a_damaged_byte_of_any_frame_of_a_segment_is_noticed():
    """Also of the first: nothing of a segment that nothing can be read of may be taken for archived."""
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    for value in (b"one", b"two"):
        commit(journal, log, value)
    journal.seal()
    file = files.open(segment_path(DIRECTORY / "journal", 1))
    written = bytes(file.read(SEGMENT_BYTES, HEADER_SPACE)).rstrip(b"\0")
    assert values_of(journal, 1, 2) == [b"one", b"two"]
    for place, byte in enumerate(written):
        file.write([bytes([byte ^ 1])], HEADER_SPACE + place)
        with pytest.raises(JournalCorrupt, match=r"entries [01] to 1 cannot be read"):
            values_of(journal, 1, 2)
        file.write([bytes([byte])], HEADER_SPACE + place)


def test_a_reader_holds_the_space_until_it_has_read():
    journal, log, _ = start(MemoryFileSystem())
    entry = commit(journal, log)
    journal.seal()
    number, _ = split_position(entry.position)
    recycled = threading.Event()

    def recycle():
        journal.recycle(number)
        recycled.set()

    with journal._readable.reading(number) as file:
        thread = threading.Thread(target=recycle)
        thread.start()
        assert not recycled.wait(0.05)
        assert len(file.read(10, split_position(entry.position)[1])) == 10
    assert recycled.wait(WAIT_SECONDS)
    thread.join()

    with pytest.raises(RecycledError):
        journal.read(entry.position, entry.size_bytes)


def test_a_writer_waits_while_too_many_segments_are_complete():
    journal, log, _ = start(MemoryFileSystem())
    journal.attach_archiver(1)
    for _ in range(4):
        commit(journal, log)
    assert journal.segment_count == 2
    done = threading.Event()

    def write():
        commit(journal, log)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not done.wait(0.05)
    journal.recycle(1)
    assert done.wait(WAIT_SECONDS)
    thread.join()
    assert log.log_end_offset == 5


def test_a_waiting_writer_fails_when_the_journal_closes():
    journal, log, _ = start(MemoryFileSystem())
    journal.attach_archiver(1)
    for _ in range(4):
        commit(journal, log)
    failures = []

    def write():
        try:
            commit(journal, log)
        except JournalFailed as error:
            failures.append(str(error))

    thread = threading.Thread(target=write)
    thread.start()
    while not journal.room._changed._waiters:
        pass
    journal.close()
    thread.join(WAIT_SECONDS)
    assert failures == ["the journal is closed"]


def cut_segment(files, number, value):
    """The frame that holds the value cannot be read any more."""
    file = files.open(segment_path(DIRECTORY / "journal", number))
    file.write([b"\0"], bytes(file.read(file.size_bytes(), 0)).index(value))


def test_a_journal_that_lost_archived_entries_continues_at_the_archive_end():
    """With flush=os a power cut suffices. Later acknowledged entries must not get LSNs of archived ones."""
    files = MemoryFileSystem()
    journal, log, _ = start(files, flush="os")
    for value in (b"one", b"two", b"three"):
        journal.write([entry_of(log, value)])
    journal.seal()
    files.kill()
    files.unlink(segment_path(DIRECTORY / "journal", 2))
    cut_segment(files, 1, b"two")

    journal, log, found = start(files, flush="os", archived_lsn=3)
    assert (found, journal.next_lsn) == ([], 3)
    assert journal.sealed() == [(1, 3)]
    journal.write([entry_of(log, b"four")])
    files.kill()
    journal, log, found = start(files, flush="os", archived_lsn=3)
    assert found == [b"four"]
    journal.recycle(1)
    files.kill()
    assert start(files, flush="os", archived_lsn=3)[2] == [b"four"]


def test_damage_to_archived_entries_does_not_affect_later_ones():
    files = MemoryFileSystem()
    journal, log, _ = start(files)
    for values in ((b"one", b"two"), (b"three", b"four"), (b"five",)):
        for value in values:
            commit(journal, log, value)
        journal.seal()
    files.kill()
    cut_segment(files, 1, b"two")
    cut_segment(files, 2, b"three")

    with pytest.raises(JournalCorrupt, match="were durable"):
        start(files, archived_lsn=2)
    files.kill()
    journal, log, found = start(files, archived_lsn=4)
    assert found == [b"five"]
    commit(journal, log, b"six")
    files.kill()
    assert start(files, archived_lsn=4)[2] == [b"five", b"six"]
