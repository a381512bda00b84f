"""Frames read back whole, cut at every byte, and with any tail."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.journal.entry import JournalEntry
from pipeline_broker.log.journal.frame import (
    FRAME_HEADER_SIZE,
    JOIN_BELOW_BYTES,
    MAGIC,
    RUN_ENTRIES_MAX,
    RUN_FRAMES_MAX,
    encode_frame,
    entry_key,
    is_intact,
    iterate_entries,
    read_frame_header,
    read_run,
    seems_of_segment,
    split_key,
)
from pipeline_broker.records.checksum import crc32c

IDENTITY = 0x1122334455667788


class Owner:
    def __init__(self, partition):
        self.entry_key = entry_key(bytes(range(16)), partition)


def entries_of(batches):
    return [JournalEntry(Owner(n), n, n, 0, (batch,), len(batch)) for n, batch in enumerate(batches)]


def encode(batches, **changes):
    fields = {"identity": IDENTITY, "first_lsn": 5, "durable_lsn": 3, "position": 0} | changes
    return encode_frame(entries_of(batches), **fields)


def read(data, position=0, available=None):
    """Return the batches of the frame at a position, or None."""
    header = read_frame_header(data, position, len(data) - position if available is None else available)
    if header is None or not is_intact(header, data, position):
        return None
    entries = list(iterate_entries(header, data, position, place=1000))
    assert all(bytes(data[place - 1000 :]).startswith(bytes(batch)) for _, place, batch in entries)
    return [(key, bytes(batch)) for key, _, batch in entries]


@given(st.lists(st.binary(max_size=100), max_size=8), st.binary(max_size=50), st.binary(max_size=50))
def test_a_frame_reads_back_between_any_neighbours(batches, before, behind):
    data = before + b"".join(encode(batches)) + behind

    assert [(entry_key(bytes(range(16)), n), batch) for n, batch in enumerate(batches)] == read(data, len(before))


def test_a_frame_cut_at_any_byte_is_none():
    """Case 12."""
    data = b"".join(encode([b"one", b"", b"three" * 10]))

    assert all(read(data[:size]) is None for size in range(len(data)))
    assert all(read(data[:size] + bytes(len(data) - size)) is None for size in range(len(data)))


def test_a_changed_bit_anywhere_is_noticed():
    data = b"".join(encode([b"one", b"three"]))

    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place % 8)
        assert read(damaged) is None


@pytest.mark.parametrize("tail", [bytes(200), b"\xff" * 200, b"PBPJ" * 50])
def test_garbage_is_not_a_frame(tail):
    assert read(tail) is None


def test_a_length_of_four_gib_is_refused_before_anything_is_read():
    """Case 13."""
    data = bytearray(b"".join(encode([b"one"])))
    data[8:12] = b"\xff" * 4

    assert read_frame_header(data, 0, len(data)) is None
    assert read_frame_header(data, 0, 1 << 40) is None


@pytest.mark.parametrize("position", [0, 1000])
def test_a_frame_is_at_most_as_long_as_the_available_bytes(position):
    data = bytes(position) + b"".join(encode([b"one"]))
    size = len(data) - position
    assert read_frame_header(data, position, size).body_size == size - FRAME_HEADER_SIZE
    assert [read_frame_header(data, position, size - less) for less in (1, FRAME_HEADER_SIZE)] == [None, None]
    largest = bytearray(data)
    largest[position + 8 : position + 12] = ((1 << 31) - 1).to_bytes(4, "little")
    assert read_frame_header(largest, position, 1 << 40).body_size == (1 << 31) - 1
    largest[position + 8 : position + 12] = (1 << 31).to_bytes(4, "little")
    assert read_frame_header(largest, position, 1 << 40) is None


def test_a_header_that_exceeds_the_buffer_is_not_a_frame():
    for length in range(FRAME_HEADER_SIZE):
        for position in (0, 3):
            assert read_frame_header(bytes(position + length), position, 1 << 40) is None
            assert read_frame_header(bytes(position + 100), position, length) is None


def test_large_batches_are_not_copied():
    large = bytes(JOIN_BELOW_BYTES)
    parts = encode([b"small", large, b"small", b"small"])

    assert sum(part is large for part in parts) == 1
    assert len(parts) == 4  # header, first batch, the batch, last batch
    assert read(b"".join(parts)) is not None


def test_small_batches_are_one_buffer():
    assert len(encode([b"small"] * 100)) == 2  # header and body


@given(st.lists(st.sampled_from([b"", b"small", bytes(JOIN_BELOW_BYTES)]), max_size=5), st.integers(0, 1 << 50))
def test_entries_get_the_place_of_their_batch(batches, position):
    entries = entries_of(batches)
    data = b"".join(encode_frame(entries, IDENTITY, 0, 0, position))

    for entry in entries:
        start = entry.position - position
        assert data[start : start + entry.size_bytes] == b"".join(entry.parts)
    assert all(entry.position >= position + FRAME_HEADER_SIZE for entry in entries)


@given(st.binary(min_size=16, max_size=16), st.integers(-(1 << 31), (1 << 31) - 1))
def test_keys_split_into_topic_id_and_partition(topic_id, partition):
    assert (topic_id, partition) == split_key(entry_key(topic_id, partition))


def run_one_by_one(data, position, lsn, from_lsn):
    """Return the expected result of an unbounded `read_run`."""
    entries, durable_lsn = [], 0
    while True:
        header = read_frame_header(data, position, len(data) - position)
        if header is None or header[4:6] != (IDENTITY, lsn) or not is_intact(header, data, position):
            return entries, position, lsn, durable_lsn
        if lsn >= from_lsn:
            entries += iterate_entries(header, data, position, 1000)
        position += FRAME_HEADER_SIZE + header.body_size
        lsn, durable_lsn = lsn + header.entry_count, header.durable_lsn


@given(
    frames=st.lists(st.lists(st.binary(max_size=40), max_size=4), max_size=6),
    strangers=st.sets(st.integers(0, 5)),
    flip=st.none() | st.integers(0, 1 << 30),
    cut=st.integers(0, 100),
    from_lsn=st.integers(0, 12),
)
def test_a_run_equals_its_frames_read_one_by_one(frames, strangers, flip, cut, from_lsn):
    data, lsn = bytearray(b"before"), 5
    for number, batches in enumerate(frames):
        identity = IDENTITY + (number in strangers)
        data += b"".join(encode(batches, identity=identity, first_lsn=lsn, durable_lsn=lsn))
        lsn += len(batches)
    if flip is not None:
        data[flip // 8 % len(data)] ^= 1 << (flip % 8)
    data = bytes(data)[: len(data) - cut if cut < 50 else None]

    assert run_one_by_one(data, 6, 5, from_lsn) == tuple(read_run(data, 6, IDENTITY, 5, from_lsn, 1000))


def test_a_run_ends_at_its_bounds_and_the_next_continues_there():
    many, none = b"".join(encode([b"x"] * RUN_ENTRIES_MAX)), b"".join(encode([], first_lsn=5 + RUN_ENTRIES_MAX))
    data = many + none * (RUN_FRAMES_MAX + 1)
    first = read_run(data, 0, IDENTITY, 5, 0, 0)
    second = read_run(data, first.end, IDENTITY, first.end_lsn, 0, 0)

    assert (first.end, len(first.entries)) == (len(many), RUN_ENTRIES_MAX)
    assert second.end == len(data) - len(none)


@pytest.mark.parametrize("count", [0, 2])
def test_an_intact_frame_with_another_number_of_entries_is_a_writers_mistake(count):
    _, body = encode([b"one"])
    checked = struct.pack("<IIQQQ", len(body), count, IDENTITY, 5, 0)
    data = struct.pack("<II", MAGIC, crc32c(checked + body)) + checked + body

    with pytest.raises(ValueError, match=r"^a frame has (more|fewer) bytes"):
        read_run(data, 0, IDENTITY, 5, 0, 0)


def test_broken_bytes_were_a_frame_of_the_segment_when_they_began_as_one():
    """Whole frames of other identities are what an earlier life left; a broken one of them was not there before."""
    data = b"before" + b"".join(encode([b"one", b"three"])) + b"behind"
    assert all(seems_of_segment(data[:size], 6, IDENTITY) for size in range(7, len(data)))
    assert not seems_of_segment(data, 6, IDENTITY + 1), "it is whole"
    assert all(seems_of_segment(data[:size], 6, IDENTITY + 1) for size in range(7, len(data) - 6))
    assert not seems_of_segment(data[:6], 6, IDENTITY), "nothing is there"
    torn = data[:6] + bytes(16) + data[22:]
    assert seems_of_segment(torn, 6, IDENTITY), "its beginning is lost, and not its identity"
    assert not seems_of_segment(torn, 6, IDENTITY + 1)
    assert not seems_of_segment(bytes(200), 6, IDENTITY)
    assert not seems_of_segment(data, 5, IDENTITY)
