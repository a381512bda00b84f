"""The encoding of offset and time indexes: like Kafka's, resumable and verified."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive import index_files
from pipeline_broker.log.archive.index_files import (
    INDEX_SIZE_MAX,
    OFFSET_ENTRY,
    POSITION_MAX,
    RELATIVE_OFFSET_MAX,
    TIME_ENTRY,
    IndexBuilder,
    IndexState,
    check_state,
    parse_offset_index,
    parse_time_index,
)
from pipeline_broker.log.errors import DamagedIndexError
from tests.drawn import drawn, measured
from tests.log.archive.segments import flipped

BASE = 5000

#: (records skipped, records, bytes, largest timestamp) of each batch
BATCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 0, 2]),
        st.integers(1, 9),
        st.sampled_from([61, 500, 1365, 4095, 4096, 4097, 90_000]),
        st.integers(-1, 50),
    ),
    max_size=40,
)


def with_offsets(shapes):
    offset, batches = BASE, []
    for gap, count, size, timestamp in shapes:
        batches.append((offset + gap, offset + gap + count - 1, size, timestamp))
        offset += gap + count
    return batches


def built(batches, *, is_sealed=False):
    builder = IndexBuilder(BASE)
    for batch in batches:
        builder.add(*batch)
    if is_sealed:
        builder.seal()
    return builder


def as_told(batches, *, is_sealed):
    """The entries by the rules as they are written down, with nothing clever."""
    offsets, times = [], []
    position = since_entry = 0
    follows = BASE
    largest, largest_at = -1, None
    for base_offset, last_offset, size, timestamp in batches:
        if timestamp > largest:
            largest, largest_at = timestamp, last_offset
        if since_entry > 4096 or base_offset != follows:
            offsets.append((last_offset - BASE, position))
            if largest > (times[-1][0] if times else -1):
                times.append((largest, largest_at - BASE))
            since_entry = 0
        since_entry += size
        position += size
        follows = last_offset + 1
    if is_sealed and largest > (times[-1][0] if times else -1):
        times.append((largest, largest_at - BASE))
    return offsets, times


@given(BATCHES.map(with_offsets), st.booleans())
def test_entries_follow_kafkas_rules_and_name_every_batch_after_a_gap(batches, is_sealed):
    taken = built(batches, is_sealed=is_sealed).take()

    offsets, times = as_told(batches, is_sealed=is_sealed)
    assert list(OFFSET_ENTRY.iter_unpack(taken.offset_entries)) == offsets
    assert list(TIME_ENTRY.iter_unpack(taken.time_entries)) == times


def test_an_entry_needs_more_than_the_interval_before_a_batch():
    taken = built([(BASE, BASE, 4096, 1), (BASE + 1, BASE + 1, 1, 2), (BASE + 2, BASE + 4, 70, 3)]).take()

    assert taken.offset_entries == bytes.fromhex("00000004 00001001")
    assert taken.time_entries == bytes.fromhex("0000000000000003 00000004")


@given(BATCHES.map(with_offsets), st.data())
def test_a_builder_resumed_at_any_size_gives_the_same_index(batches, data):
    """Bytes that an interrupted write left after the recorded state are not passed to it."""
    whole = built(batches, is_sealed=True)
    expected = whole.take()
    cut = data.draw(st.integers(0, len(batches)))
    first = built(batches[:cut])
    before = first.take()

    resumed = IndexBuilder.resume(BASE, first.state, before.offset_entries, before.time_entries)
    position = 0
    for number, batch in enumerate(batches):
        if number == cut:
            assert resumed.next_state() == first.state, "entries in the files are not added again"
            assert (resumed.size_bytes, resumed.max_timestamp) == (first.size_bytes, first.max_timestamp)
        if position >= resumed.size_bytes:
            resumed.add(*batch)
        position += batch[2]
    resumed.seal()
    after = resumed.take()

    assert after.offset_position == len(before.offset_entries)
    assert after.time_position == len(before.time_entries)
    assert before.offset_entries + after.offset_entries == expected.offset_entries
    assert before.time_entries + after.time_entries == expected.time_entries
    assert resumed.state == whole.state
    assert (resumed.size_bytes, resumed.last_offset) == (whole.size_bytes, whole.last_offset)


def test_a_builder_notices_when_the_batch_at_the_last_entry_is_another():
    first = built([(BASE, BASE, 5000, 1), (BASE + 1, BASE + 3, 100, 2)])
    taken = first.take()
    resumed = IndexBuilder.resume(BASE, first.state, taken.offset_entries, taken.time_entries)
    assert resumed.size_bytes == 5000

    with pytest.raises(DamagedIndexError, match="offset 5003 is not at byte 5000"):
        resumed.add(BASE + 1, BASE + 2, 100, 2)


def test_every_flipped_bit_and_every_missing_byte_is_noticed_by_the_recorded_state():
    builder = built([(BASE + n, BASE + n, 3000, n) for n in range(12)], is_sealed=True)
    taken = builder.take()
    index, times = taken.offset_entries, taken.time_entries
    assert len(index) == 5 * OFFSET_ENTRY.size
    assert len(times) == 6 * TIME_ENTRY.size
    check_state(builder.state, index, times)

    damaged = [(flipped(index, bit), times) for bit in range(8 * len(index))]
    damaged += [(index, flipped(times, bit)) for bit in range(8 * len(times))]
    damaged += [(index[:size], times) for size in range(len(index))]
    damaged += [(index, times[:size]) for size in range(len(times))]
    for files in damaged:
        with pytest.raises(DamagedIndexError):
            check_state(builder.state, *files)
        with pytest.raises(DamagedIndexError):
            IndexBuilder.resume(BASE, builder.state, *files)


@given(BATCHES.map(with_offsets), st.integers(0, 40))
def test_an_index_can_be_parsed_whole_and_in_two_pieces(batches, cut):
    builder = built(batches, is_sealed=True)
    taken = builder.take()
    offset_max, position_max = builder.last_offset - BASE, builder.size_bytes - 1
    offsets, positions = parse_offset_index(taken.offset_entries, offset_max, position_max)
    timestamps, time_offsets = parse_time_index(taken.time_entries, offset_max, builder.max_timestamp)
    assert list(zip(offsets, positions, strict=True)) == list(OFFSET_ENTRY.iter_unpack(taken.offset_entries))
    assert list(zip(timestamps, time_offsets, strict=True)) == list(TIME_ENTRY.iter_unpack(taken.time_entries))
    if 0 < cut < len(offsets):
        after = (offsets[cut - 1], positions[cut - 1])
        rest = parse_offset_index(taken.offset_entries[8 * cut :], offset_max, position_max, after)
        assert rest == (offsets[cut:], positions[cut:])
        with pytest.raises(DamagedIndexError):
            parse_offset_index(taken.offset_entries[8 * cut - 8 :], offset_max, position_max, after)


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ([(5, 0), (4, 10)], "offset"),
        ([(5, 0), (5, 10)], "offset"),
        ([(5, 10), (6, 10)], "position"),
        ([(5, 10), (6, 0)], "position"),
        ([(-1, 0)], "offset"),
        ([(0, -1)], "position"),
        ([(101, 0)], "offset"),
        ([(0, 1001)], "position"),
        ([(3, 3), (0, 0)], "offset"),
    ],
)
def test_entries_that_do_not_grow_or_lie_outside_the_segment_are_damage(entries, what):
    data = b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries)
    with pytest.raises(DamagedIndexError, match=what):
        parse_offset_index(data, 100, 1000)
    times = b"".join(TIME_ENTRY.pack(*entry) for entry in entries)
    if what == "offset":
        with pytest.raises(DamagedIndexError):
            parse_time_index(times, 1000, 100)


rising = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6).map(
    lambda pairs: list(zip(*map(sorted, map(set, zip(*pairs, strict=True))), strict=False))
)
indexes = st.one_of(
    rising.map(lambda entries: b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries)),
    rising.map(lambda entries: b"".join(TIME_ENTRY.pack(*entry) for entry in entries)),
)


@measured(parsed=0.1, damaged=0.1)
@given(st.binary(max_size=100) | indexes, st.booleans())
def test_any_bytes_are_parsed_or_are_damage_and_nothing_else(data, is_whole):
    for parse, size in ((parse_offset_index, OFFSET_ENTRY.size), (parse_time_index, TIME_ENTRY.size)):
        piece = data[: len(data) // size * size] if is_whole else data
        try:
            parse(piece, 1 << 30, 1 << 62)
        except DamagedIndexError:
            drawn("damaged")
            continue
        drawn("parsed", piece)
        assert len(piece) % size == 0


@pytest.mark.parametrize("batches_taken", [2, 1000])
def test_a_segment_ends_before_its_numbers_or_its_indexes_become_too_large(batches_taken, monkeypatch):
    builder = IndexBuilder(BASE)
    assert builder.can_add(BASE + RELATIVE_OFFSET_MAX, POSITION_MAX)
    assert not builder.can_add(BASE + RELATIVE_OFFSET_MAX + 1, 100)
    assert not builder.can_add(BASE, POSITION_MAX + 1)
    assert INDEX_SIZE_MAX == 10 << 20
    monkeypatch.setattr(index_files, "INDEX_SIZE_MAX", 60)
    offset = BASE
    while builder.can_add(offset, 5000):
        builder.add(offset, offset, 5000, offset)
        if (offset - BASE) % batches_taken == 1:
            builder.take()
        offset += 1
    builder.seal()
    builder.take()
    assert builder.state.offset_index_bytes <= 60
    assert 48 <= builder.state.time_index_bytes <= 60
    assert builder.state == IndexState(
        builder.state.offset_index_bytes,
        builder.state.offset_index_crc,
        builder.state.time_index_bytes,
        builder.state.time_index_crc,
    )


def test_an_offset_index_is_filled_to_its_bound(monkeypatch):
    """The other index has next to nothing here: no batch has a later time than the first."""
    monkeypatch.setattr(index_files, "INDEX_SIZE_MAX", 8 * OFFSET_ENTRY.size)
    builder, offset = IndexBuilder(BASE), BASE
    while builder.can_add(offset, 5000):
        builder.add(offset, offset, 5000, 7)
        offset += 1
    builder.take()
    assert builder.state.offset_index_bytes == 8 * OFFSET_ENTRY.size
