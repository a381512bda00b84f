"""Batches read from the journal's files are verified one by one, whether they are in the page cache or not."""

from pathlib import Path

import pytest

from pipeline_broker.log.errors import REMEDY, DamagedSegment
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.segment import segment_path, split_position
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition import reading
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from tests.files.memory_file_system import MemoryFileSystem

TOPIC_ID = bytes(range(16))
DIRECTORY = Path("/d")
BATCHES = 6


class Setting:
    """Two logs with alternating batches in the journal, and none in the tail cache."""

    def __init__(self):
        self.files = MemoryFileSystem()
        journal = Journal.open(DIRECTORY, files=self.files)
        manager = LogManager(journal, cache_bytes_max=0)
        self.logs = manager.create("topic", TOPIC_ID, 2)
        manager.recover(lambda *_: None, 0)
        for number in range(BATCHES):
            entries = []
            for log in self.logs:
                batch = build_batch([NewRecord(b"%d" % number * 300)])
                entries.append(log.append(read_header(batch), batch, 0).entry)
            journal.sync(journal.write(entries))
            manager.on_durable(entries)
        self.log = self.logs[0]

    def damage(self, number, place):
        """Change a byte of a batch of the first log."""
        segment, position = split_position(self.log.index.places[number])
        file = self.files.open(segment_path(DIRECTORY / "journal", segment))
        (byte,) = file.read(1, position + place)
        file.write([bytes([byte ^ 1])], position + place)

    def read(self, offset):
        """Return the base offsets of a read, including its cold part."""
        result = self.log.read(offset, 1 << 20, at_least_one=True)
        parts = result.cold() if result.cold else result.parts
        return [header.base_offset for header, _ in iterate_batches(b"".join(parts))]


@pytest.mark.parametrize("is_cold", [True, False])
@pytest.mark.parametrize("place", [0, 7, 11, 15, 16, 17, 60, 100])
def test_a_changed_byte_ends_a_read_before_its_batch_and_is_an_error_there(is_cold, place):
    """Base offset, length, leader epoch and magic lie outside the checksum and are held against the index."""
    it = Setting()
    it.files.is_cold = is_cold
    it.damage(3, place)

    assert it.read(0) == [0, 1, 2]
    _, position = split_position(it.log.index.places[3])
    with pytest.raises(DamagedSegment, match=rf"journal segment 1 is damaged at byte {position}\b.* offset 3") as found:
        it.read(3)
    assert found.value.error_name == "CORRUPT_MESSAGE"
    assert it.read(4) == [4, 5], "later batches can be read"


@pytest.mark.parametrize("is_cold", [True, False])
def test_a_batch_of_another_partition_is_not_taken_for_this_ones(is_cold):
    """A misdirected disk read returns intact batches of another position."""
    it = Setting()
    it.files.is_cold = is_cold
    distance = it.logs[1].index.places[2] - it.log.index.places[2]
    open_file = it.files.open
    it.files.open = lambda path: _Misdirected(open_file(path), distance)

    with pytest.raises(DamagedSegment):
        it.read(2)


class _Misdirected:
    """A file that returns bytes of a later position."""

    def __init__(self, file, distance):
        self._file = file
        self._distance = distance

    def read(self, size_bytes, position):
        return self._file.read(size_bytes, position + self._distance)

    def read_cached(self, size_bytes, position):
        return self._file.read_cached(size_bytes, position + self._distance)


def test_a_read_that_was_misdirected_once_is_right_the_next_time():
    """Case 31."""
    it = Setting()
    it.files.is_cold = True
    it.damage(2, 100)
    with pytest.raises(DamagedSegment):
        it.read(2)
    it.damage(2, 100)  # back again

    assert it.read(2) == [2, 3, 4, 5]


def test_damage_is_logged_once_until_its_place_is_read_well(caplog):
    it = Setting()
    it.damage(3, 100)
    for _ in range(3):
        with pytest.raises(DamagedSegment):
            it.read(3)
    (message,) = caplog.messages
    assert message.startswith("topic-0: journal segment 1 is damaged at byte ")
    assert message.endswith(f"offset 3: the batch differs from the one that was written. {REMEDY}")

    it.damage(3, 100)  # restores the byte
    assert it.read(3) == [3, 4, 5]
    it.damage(3, 100)
    with pytest.raises(DamagedSegment):
        it.read(3)
    assert len(caplog.messages) == 2


def test_places_whose_damage_was_logged_are_bounded(caplog, monkeypatch):
    monkeypatch.setattr(reading, "DAMAGED_MAX", 1)
    it = Setting()
    for number in (1, 2):
        it.damage(number, 100)
    for number in (1, 2, 2, 1):
        with pytest.raises(DamagedSegment):
            it.read(number)
    assert len(caplog.messages) == 3
