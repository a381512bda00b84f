"""A file of ranges and pieces in memory always reads as its bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive.objects.file_map import Range
from pipeline_broker.log.archive.objects.object_file import (
    JOINED_BELOW_BYTES,
    ObjectFile,
    Piece,
    is_pending,
    written_pieces,
)

OBJECTS = {"one": bytes(range(100)), "two": bytes(range(100, 200))}
RANGES = st.builds(Range, st.sampled_from(sorted(OBJECTS)), st.integers(0, 90), st.integers(1, 9))


def going(place):
    """Bytes in memory that are on their way to an object."""
    return Piece(memoryview(stored(place)), place)


PIECES = st.lists(RANGES | RANGES.map(going) | st.binary(min_size=1, max_size=9).map(Piece), max_size=6)


def stored(place):
    return OBJECTS[place.object_name][place.start : place.start + place.size_bytes]


def content(pieces):
    found = b""
    for each in pieces:
        if isinstance(each, Range):
            found += stored(each)
            continue
        if each.place is not None:
            assert stored(each.place) == bytes(each.data), "it is uploaded to the given position"
            assert each.place.size_bytes == each.size_bytes
        found += bytes(each.data)
    return found


@given(PIECES)
def test_any_part_of_a_file_equals_its_bytes(pieces):
    file = ObjectFile(pieces)
    whole = content(pieces)
    assert file.size_bytes == len(whole)
    for start in range(len(whole) + 2):
        assert content(file.cut_at(start)) == whole[:start]
        for end in (0, start, start + 1, start + 12, len(whole), len(whole) + 5):
            between = list(file.between(start, end))
            assert content(between) == whole[start:end]
            assert all(each.size_bytes for each in between)


@given(PIECES, st.sampled_from(sorted(OBJECTS)), st.booleans())
def test_uploading_pieces_become_ranges_or_pending_again(pieces, object_name, has_arrived):
    file = ObjectFile(pieces)
    after = file.after_upload(object_name, has_arrived=has_arrived)
    on_their_way = [it for it in pieces if isinstance(it, Piece) and it.place and it.place.object_name == object_name]
    assert file.goes_to(object_name) == bool(on_their_way)
    assert not after.goes_to(object_name)
    assert content(after.pieces) == content(pieces)
    bytes_on_their_way = sum(it.size_bytes for it in on_their_way)
    assert after.pending_bytes == file.pending_bytes + (0 if has_arrived else bytes_on_their_way)
    assert len(after.ranges) == len(file.ranges) + (len(on_their_way) if has_arrived else 0)
    assert [it for it in pieces if is_pending(it)] == [it for it in pieces if isinstance(it, Piece) and not it.place]


SMALL, LARGE = bytes(JOINED_BELOW_BYTES - 1), bytes(JOINED_BELOW_BYTES)


@pytest.mark.parametrize(
    ("parts", "sizes"),
    [
        ([], []),
        ([b"", b""], []),
        ([b"a", b"bc"], [3]),
        ([b"a", LARGE, b"bc", b"d"], [1, len(LARGE), 3]),
        ([LARGE, LARGE], [len(LARGE)] * 2),
        ([SMALL, SMALL], [2 * len(SMALL)]),
        ([bytearray(LARGE), bytearray(LARGE)], [2 * len(LARGE)]),
    ],
)
def test_large_parts_are_kept_as_they_are_and_others_together(parts, sizes):
    """Parts that may still change are copied, whatever their size."""
    pieces = list(written_pieces(parts))
    assert [it.size_bytes for it in pieces] == sizes
    assert all(it.place is None for it in pieces)
    assert b"".join(it.data for it in pieces) == b"".join(parts)
    kept = [part for part in parts if any(it.data is part for it in pieces)]
    assert [it for it in kept if len(it) > 1] == [it for it in parts if isinstance(it, bytes) and len(it) == len(LARGE)]
