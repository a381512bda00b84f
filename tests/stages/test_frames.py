"""Frames do not depend on how their bytes arrive, and a declared size is never trusted."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.frames import GROWTH_BYTES_MIN, LARGE_FRAME_BYTES, FrameReader, InvalidFrameError, frame_of
from stages.request import Send

MAX = 1_000_000
LARGE = LARGE_FRAME_BYTES + 1234


def length(size):
    return struct.pack(">i", size)


def framed(payload):
    return length(len(payload)) + payload


def feed(reader, data, by_room=True):
    """Pass `data` to a reader like a connection does: into the buffer of a large frame if one has begun."""
    frames = []
    while data:
        room = reader.large_frame_room() if by_room else None
        if room is None:
            reader.receive_data(data)
            data = b""
        else:
            count = min(len(room), len(data))
            room[:count] = data[:count]
            room.release()
            reader.received(count)
            data = data[count:]
        while (frame := reader.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


PAYLOADS = [b"", b"a", b"bc" * 300, b"d" * LARGE, b"", b"e" * (LARGE_FRAME_BYTES - 1), b"f" * LARGE_FRAME_BYTES, b"g"]


@pytest.mark.parametrize("chunk", [1, 3, 4096, 65_536, 10**9])
@pytest.mark.parametrize("by_room", [True, False])
def test_frames_are_the_same_whole_and_in_pieces(chunk, by_room):
    payloads = PAYLOADS if chunk >= 4096 else [payload for payload in PAYLOADS if len(payload) < 1000]
    stream = b"".join(map(framed, payloads))
    reader = FrameReader(MAX)
    frames = []
    for start in range(0, len(stream), chunk):
        frames += feed(reader, stream[start : start + chunk], by_room)
    assert frames == payloads
    assert reader.buffered_bytes == 0


@given(
    st.lists(st.integers(0, 3 * LARGE_FRAME_BYTES), max_size=6),
    st.lists(st.integers(2000, 2 * LARGE_FRAME_BYTES), min_size=1, max_size=8),
    st.lists(st.booleans(), min_size=1, max_size=3),
)
def test_frames_survive_any_cuts(sizes, cuts, by_room):
    """Case 52."""
    payloads = [bytes([index]) * size for index, size in enumerate(sizes)]
    stream = b"".join(map(framed, payloads)) + b"\0\0"  # the beginning of another frame
    reader, frames, turn = FrameReader(MAX), [], 0
    while stream:
        cut = cuts[turn % len(cuts)]
        frames += feed(reader, stream[:cut], by_room[turn % len(by_room)])
        stream, turn = stream[cut:], turn + 1
    assert frames == payloads
    assert reader.buffered_bytes == 2


def test_a_large_frame_may_be_received_directly_and_by_receive_data_alternately():
    payload = bytes(range(256)) * 1000
    reader, stream = FrameReader(MAX), framed(payload)
    assert feed(reader, stream[:50_000]) == feed(reader, stream[50_000:100_000]) == []
    assert feed(reader, stream[100_000:150_000], by_room=False) == []
    assert feed(reader, stream[150_000:200_000]) == []
    assert feed(reader, stream[200_000:], by_room=False) == [payload]


def test_a_frame_byte_by_byte_above_the_large_bound():
    reader, payload = FrameReader(MAX), b"x" * (LARGE_FRAME_BYTES + 2)
    stream = framed(payload)
    assert feed(reader, stream[:-3]) == []
    assert [frame for byte in stream[-3:] for frame in feed(reader, bytes([byte]))] == [payload]


@pytest.mark.parametrize("size", [-1, -(2**31), MAX + 1, 2**31 - 1])
def test_a_size_out_of_bounds_is_refused_for_ever_and_frames_before_it_are_not_lost(size):
    reader = FrameReader(MAX)
    reader.receive_data(framed(b"before") + length(size) + b"rest")
    assert bytes(reader.next_frame()) == b"before"
    for _ in range(2):
        with pytest.raises(InvalidFrameError):
            reader.next_frame()
        assert reader.buffered_bytes == 0, "later bytes cannot be parsed, and are not kept"
    reader.receive_data(framed(b"after"))
    with pytest.raises(InvalidFrameError):
        reader.next_frame()


def test_sizes_zero_and_the_maximum_are_accepted():
    reader = FrameReader(MAX)
    assert feed(reader, length(0) + framed(b"m" * MAX)) == [b"", b"m" * MAX]


def test_a_declared_size_allocates_at_most_twice_the_received_bytes():
    reader = FrameReader(100 * 1024 * 1024)
    arrived = 200_000
    feed(reader, length(100 * 1024 * 1024) + b"x" * arrived)
    assert len(reader._large) <= 2 * arrived + 65_536
    assert reader.buffered_bytes == arrived


@given(st.lists(st.one_of(st.binary(max_size=50), st.binary(max_size=50).map(memoryview)), max_size=5))
def test_a_response_is_its_length_and_its_parts(parts):
    wire, count = frame_of(Send(*parts))
    assert b"".join(wire) == framed(b"".join(parts))
    assert count == len(b"".join(wire))


def test_a_single_part_leaves_in_one_piece_with_its_length_unless_it_is_too_large_to_be_copied():
    for size, pieces in ((0, 1), (GROWTH_BYTES_MIN, 1), (GROWTH_BYTES_MIN + 1, 2), (LARGE, 2)):
        payload = bytes(size)
        wire, _ = frame_of(Send(payload))
        assert len(wire) == pieces
        assert pieces == 1 or wire[1] is payload


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_reader_that_is_abandoned_holds_nothing(size):
    reader = FrameReader(MAX)
    assert feed(reader, framed(b"x") + framed(bytes(size))[:-1]) == [b"x"]
    assert reader.buffered_bytes >= size - 1
    reader.abandon()
    assert (reader.buffered_bytes, reader.large_buffer_bytes, reader.collects_large) == (0, 0, False)
