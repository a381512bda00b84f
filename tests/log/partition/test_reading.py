"""Reading the batches of one partition from a shared journal, with few system calls and few surplus bytes."""

import pytest

from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD
from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.leader_epochs import FIRST_EPOCH
from pipeline_broker.log.partition.reading import GAP_BYTES_MAX, GATHER_BELOW_BYTES, JournalSource, gathered
from pipeline_broker.log.read_result import BATCHES_PER_READ, BYTES_PER_READ, SPAN_BYTES_MAX
from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, assembled, build_batch, read_header, restamped

KEY = bytes(range(20))
SMALL = 100
HEADER = read_header(build_batch([NewRecord(b"")]))
"""Of batches with unread records."""


class Journal:
    """Records which bytes were read."""

    def __init__(self):
        self.data = bytearray()
        self.is_cold, self.cold_places = False, set()
        self.calls = []

    def read(self, place, size_bytes):
        self.calls.append((place, size_bytes))
        return bytes(self.data[place : place + size_bytes])

    def read_cached(self, place, size_bytes):
        return None if self.is_cold or place in self.cold_places else self.read(place, size_bytes)

    def name_of(self, place):
        return "the journal", place


class Log:
    """A partition with batches of given gaps and sizes."""

    entry_key, epochs = KEY, FIRST_EPOCH

    def __init__(self, *rows):
        self.index, self.journal, self.batches = OffsetIndex(), Journal(), []
        data = self.journal.data
        for offset, (gap_bytes, size_bytes) in enumerate(rows):
            header, batch = assembled(HEADER, bytes(size_bytes - HEADER_SIZE))
            batch = restamped(header, batch, offset)
            data += bytes(gap_bytes) + KEY + len(batch).to_bytes(4, "little")
            self.index.append(offset, len(data), len(batch), 0)
            self.batches.append(batch)
            data += batch

    def read(self, first=0, end=None):
        self.journal.calls.clear()
        return JournalSource(self.journal).read(self, first, len(self.batches) if end is None else end)


def span(log, first, last):
    """Return the range from the entry header of one batch to the end of another."""
    index = log.index
    start = index.places[first] - ENTRY_OVERHEAD
    return start, index.places[last] + index.size_of(last) - start


@pytest.mark.parametrize(
    ("gap_bytes", "calls"),
    [(0, [(0, 2)]), (GAP_BYTES_MAX - ENTRY_OVERHEAD, [(0, 2)]), (GAP_BYTES_MAX - ENTRY_OVERHEAD + 1, [(0, 0), (1, 2)])],
)
def test_a_gap_is_read_with_its_neighbours_when_it_is_small(gap_bytes, calls):
    log = Log((0, SMALL), (gap_bytes, SMALL), (0, SMALL))
    assert b"".join(log.read().parts) == b"".join(log.batches)
    assert log.journal.calls == [span(log, *each) for each in calls]


@pytest.mark.parametrize(("more", "calls"), [(0, [(0, 1)]), (1, [(0, 0), (1, 1)])])
def test_one_system_call_reads_a_bounded_span(more, calls):
    half = SPAN_BYTES_MAX // 2
    log = Log((0, half), (0, SPAN_BYTES_MAX - half - 2 * ENTRY_OVERHEAD + more))
    assert b"".join(log.read().parts) == b"".join(log.batches)
    assert log.journal.calls == [span(log, *each) for each in calls]


def test_a_single_batch_is_read_whatever_its_size():
    log = Log((0, SPAN_BYTES_MAX + 1), (0, SMALL))
    assert b"".join(log.read().parts) == b"".join(log.batches)
    assert log.journal.calls == [span(log, 0, 0), span(log, 1, 1)]
    log = Log((0, BYTES_PER_READ + 1), (0, SMALL))
    assert log.read().parts == log.batches[:1]


def test_a_read_is_bounded_in_batches_and_bytes():
    log = Log(*[(0, SMALL)] * (BATCHES_PER_READ + 1))
    assert b"".join(log.read().parts) == b"".join(log.batches[:BATCHES_PER_READ])
    assert b"".join(log.read(5, 7).parts) == b"".join(log.batches[5:7])
    quarter = BYTES_PER_READ // 4
    for more, count in ((0, 4), (1, 3)):
        log = Log(*[(0, quarter)] * 3, (0, quarter + more))
        assert [len(part) for part in log.read().parts] == [quarter] * count


def test_a_cold_read_has_the_size_of_its_batches():
    log = Log((0, SMALL), (50, 2 * SMALL), (GAP_BYTES_MAX, SMALL))
    log.journal.is_cold = True
    result = log.read()
    assert (result.parts, result.size_bytes, result.cold.size_bytes) == ([], 0, 4 * SMALL)
    assert b"".join(result.cold()) == b"".join(log.batches)
    log.journal.is_cold = False
    assert log.read().size_bytes == 4 * SMALL


def test_a_read_ends_before_the_first_uncached_batch():
    """Later batches may be cached; the next read returns them, without a gap."""
    log = Log(*[(GAP_BYTES_MAX, SMALL)] * 3)
    places = [span(log, number, number)[0] for number in range(3)]
    for cold, expected in ((0, []), (1, log.batches[:1]), (2, log.batches[:2])):
        log.journal.cold_places = {places[cold]}
        result = log.read()
        assert b"".join(result.parts) == b"".join(expected)
        assert (result.cold is None) == bool(expected)


def test_many_small_batches_are_handed_on_as_one_buffer_and_large_ones_as_they_are():
    for size_bytes, count in ((GATHER_BELOW_BYTES - 1, 1), (GATHER_BELOW_BYTES, 2)):
        log = Log((0, size_bytes), (0, size_bytes))
        assert len(log.read().parts) == count
    alone = [b"x"]
    assert gathered(alone, 1) is alone
