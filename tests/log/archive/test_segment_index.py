"""Every lookup in an index, compared with a scan over the batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive.index_files import (
    NO_TIMESTAMP,
    OFFSET_ENTRY,
    TIME_ENTRY,
    IndexBuilder,
    IndexState,
)
from pipeline_broker.log.archive.segment_index import OBJECT_BYTES, SegmentIndex
from pipeline_broker.log.errors import DamagedIndexError
from pipeline_broker.records.batch import read_header
from pipeline_broker.records.checksum import crc32c
from tests.log.archive.segments import add, make_batch, segments


def made(base_offset, batches):
    builder = IndexBuilder(base_offset)
    for batch in batches:
        add(builder, batch)
    return SegmentIndex.of_builder(builder)


def positions_of(batches):
    position, found = 0, []
    for batch in batches:
        header = read_header(batch)
        found.append((header.base_offset, header.last_offset, position, len(batch), header.max_timestamp))
        position += len(batch)
    return found


@given(segments())
def test_a_batch_lies_between_floor_and_ceiling(segment):
    base_offset, batches = segment
    index, rows = made(base_offset, batches), positions_of(batches)
    begins = [position for _, _, position, _, _ in rows]
    offsets = {edge + step for first, last, _, _, _ in rows for edge in (first, last) for step in (-1, 0, 1)}
    for offset in (offset for offset in offsets if base_offset <= offset <= index.last_offset):
        at = next(position for _, last, position, _, _ in rows if last >= offset)
        assert index.floor(offset) <= at <= index.ceiling(offset)
        assert index.floor(offset) in begins
        named = next((position for _, last, position, _, _ in rows if position == at), None)
        assert named == at
        inside = [size for _, _, position, size, _ in rows if index.floor(offset) <= position < at]
        assert sum(inside[1:-1]) <= 4096, "at most one interval is skipped"
    named = list(index.names(0))
    assert set(named) <= {(position, last) for _, last, position, _, _ in rows}
    for _, _, position, _, _ in rows:
        assert list(index.names(position)) == [row for row in named if row[0] >= position]


@given(segments(), st.integers(0, 20_000))
def test_a_run_of_whole_batches_ends_where_one_begins(segment, bytes_max):
    base_offset, batches = segment
    index, rows = made(base_offset, batches), positions_of(batches)
    ends = {position for _, _, position, _, _ in rows[1:]} | {index.size_bytes}
    known = sorted({*index.positions, index.size_bytes} - {0})
    position = 0
    while position < index.size_bytes:
        end = index.boundary(position, bytes_max)
        assert end in ends
        fitting = [place for place in known if position < place <= position + bytes_max]
        assert end == (fitting[-1] if fitting else next(place for place in known if place > position))
        position = end


@given(segments(), st.integers(-2, 31))
def test_no_batch_before_the_start_of_a_search_reaches_the_time(segment, timestamp):
    base_offset, batches = segment
    index, rows = made(base_offset, batches), positions_of(batches)
    start = index.search_start(timestamp)
    assert start in {position for _, _, position, _, _ in rows}
    assert all(largest < timestamp for _, _, position, _, largest in rows if position < start)
    at = next((position for _, _, position, _, largest in rows if largest >= timestamp), None)
    if at is not None and timestamp >= 0:
        inside = [size for _, _, position, size, _ in rows if start <= position < at]
        assert sum(inside[1:-1]) <= 4096, "the search ends within one interval"


def test_a_search_begins_at_the_last_entry_before_the_match():
    batches = [make_batch(number, (number,), 5000) for number in range(5)]
    places = [number * len(batches[0]) for number in range(5)]
    assert [made(0, batches).search_start(time) for time in range(5)] == [0, 0, *places[1:4]]
    without_times = [make_batch(number, (-1,), 5000) for number in range(4)]
    assert made(0, [*without_times, batches[4]]).search_start(-1) == 0


@given(segments(), st.data())
def test_an_index_grows_as_its_files_do(segment, data):
    base_offset, batches = segment
    builder, index = IndexBuilder(base_offset), SegmentIndex.empty(base_offset)
    for batch in batches:
        add(builder, batch)
        if data.draw(st.booleans()):
            taken = builder.take()
            numbers = builder.last_offset, builder.size_bytes, builder.max_timestamp
            index = index.grown(*numbers, builder.state, taken.offset_entries, taken.time_entries)
    taken = builder.take()
    numbers = builder.last_offset, builder.size_bytes, builder.max_timestamp
    index = index.grown(*numbers, builder.state, taken.offset_entries, taken.time_entries)

    assert index == made(base_offset, batches)
    assert made(base_offset, batches).encoded() == index.encoded()
    assert index.memory_bytes == OBJECT_BYTES + sum(map(len, index.encoded()))


def test_an_index_of_no_batch_yet_ends_where_it_begins():
    index = SegmentIndex.empty(7)
    assert (index.base_offset, index.last_offset, index.size_bytes) == (7, 6, 0)
    assert (index.floor(7), index.ceiling(7), index.boundary(0, 100), index.search_start(5)) == (0, 0, 0, 0)
    assert (list(index.names(0)), index.encoded(), index.memory_bytes) == ([], (b"", b""), OBJECT_BYTES)


def grown_by(offset_entries, time_entries, before=None):
    """A segment of offsets 7 to 17, 1000 bytes and timestamps up to 50, with a state that matches these entries."""
    before = SegmentIndex.empty(7) if before is None else before
    state, offsets = before.state, b"".join(OFFSET_ENTRY.pack(*entry) for entry in offset_entries)
    times = b"".join(TIME_ENTRY.pack(*entry) for entry in time_entries)
    state = IndexState(
        state.offset_index_bytes + len(offsets),
        crc32c(offsets, state.offset_index_crc),
        state.time_index_bytes + len(times),
        crc32c(times, state.time_index_crc),
    )
    return before.grown(17, 1000, 50, state, offsets, times)


@pytest.mark.parametrize("number", range(3))
def test_entries_within_a_segment_are_taken_to_its_bounds_and_none_beyond(number):
    """Checks each bound of offsets, positions and timestamps, in an empty index and in a grown one."""
    fitting = [[(0, 0), (10, 999)], [(0, 0), (50, 10)]], [[(5, 500)], [(20, 5)]], [[(10, 999)], [(50, 10)]]
    index = None if number == 0 else grown_by(*fitting[1]) if number == 2 else grown_by([], [])
    assert grown_by(*fitting[number], index).memory_bytes > OBJECT_BYTES
    lowest = (5, 500, 20, 5) if number == 2 else (-1, -1, NO_TIMESTAMP, -1)
    for offset, position in ((lowest[0], 600), (6, lowest[1]), (11, 600), (6, 1000)):
        with pytest.raises(DamagedIndexError, match="do not increase"):
            grown_by([(offset, position)], [], index)
    for timestamp, offset in ((lowest[2], 6), (30, lowest[3]), (51, 6), (30, 11)):
        with pytest.raises(DamagedIndexError, match="do not increase"):
            grown_by([], [(timestamp, offset)], index)
