"""The map of files: changes, and their encoding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive.objects.file_map import (
    GONE,
    MERGED_RANGES,
    SMALL_BYTES,
    Change,
    DamagedMapError,
    FileMap,
    Range,
    cut,
    decode_changes,
    encode_changes,
    mergeable,
)

OBJECTS = {"bulk/a": 100, "bulk/b": 2**40, "bulk/c": 7}
ranges = st.builds(Range, st.sampled_from(sorted(OBJECTS)), st.integers(0, 2**40), st.integers(1, 2**40))
changes = st.builds(
    Change,
    st.sampled_from(["t-0/a.log", "t-0/ä.index", "u-1/b.log"]),
    st.integers(GONE, 2**40),
    st.tuples(ranges, ranges),
)


def one(size_bytes, object_name="bulk/a", start=0):
    return Range(object_name, start, size_bytes)


@given(st.lists(changes, max_size=5))
def test_changes_are_read_as_they_were_written(made):
    data = encode_changes(made, OBJECTS)
    found, sizes = decode_changes(memoryview(data))

    assert found == made
    named = {each.object_name for change in made for each in change.ranges}
    assert sizes == {name: OBJECTS[name] for name in named}


@given(st.lists(changes, min_size=1, max_size=3), st.data())
def test_bytes_that_are_cut_off_or_follow_are_refused(made, data):
    encoded = encode_changes(made, OBJECTS)
    end = data.draw(st.integers(0, len(encoded) - 1))
    for broken in (encoded[:end], encoded + b"\0"):
        with pytest.raises(DamagedMapError):
            decode_changes(broken)


@given(st.binary(max_size=200))
def test_any_bytes_are_changes_or_refused(data):
    try:
        decode_changes(data)
    except DamagedMapError:
        return


def test_a_count_that_is_too_large_takes_no_memory():
    name = b"t-0/a"
    data = b"\0\0\0\0" + b"\1\0\0\0" + len(name).to_bytes(2, "little") + bytes(8) + b"\xff\xff\xff\xff" + name
    with pytest.raises(DamagedMapError):
        decode_changes(data)


def test_a_file_is_truncated_and_continued():
    files = FileMap()
    assert files.apply([Change("t/a", 0, (one(10), one(5, "bulk/b")))], {"bulk/a": 10, "bulk/b": 9}) == []
    assert files.apply([Change("t/a", 12, (one(3, "bulk/c"),))], {"bulk/c": 3}) == []

    assert files.files["t/a"] == (one(10), one(2, "bulk/b"), one(3, "bulk/c"))
    assert files.used_bytes == {"bulk/a": 10, "bulk/b": 2, "bulk/c": 3}
    assert files.object_sizes == {"bulk/a": 10, "bulk/b": 9, "bulk/c": 3}


def test_an_unused_object_is_returned_once():
    files = FileMap()
    files.apply([Change("t/a", 0, (one(4),)), Change("t/b", 0, (one(6, start=4),))], {"bulk/a": 10})
    assert files.apply([Change("t/a", GONE)], {}) == []
    assert files.apply([Change("t/b", 0, (one(6, "bulk/b"),))], {"bulk/b": 6}) == ["bulk/a"]
    assert files.apply([Change("t/none", GONE)], {}) == []
    assert files.apply([Change("t/b", GONE)], {}) == ["bulk/b"]
    assert (files.files, files.used_bytes, files.object_sizes) == ({}, {}, {})


@given(st.lists(st.lists(changes, max_size=4), max_size=6))
def test_all_changes_at_once_make_the_same_map(rounds):
    files = FileMap()
    for made in rounds:
        sound = []
        for change in made:
            size = sum(each.size_bytes for each in files.files.get(change.name, ()))
            sound.append(change._replace(kept_bytes=min(change.kept_bytes, size)))
            files.apply([sound[-1]], OBJECTS)
    again = FileMap()
    again.apply(*decode_changes(encode_changes(files.as_changes(), files.object_sizes)))

    assert (again.files, again.used_bytes, again.object_sizes) == (files.files, files.used_bytes, files.object_sizes)


@given(st.lists(st.integers(1, 9), max_size=6), st.data())
def test_a_cut_has_the_requested_size(sizes, data):
    size = data.draw(st.integers(0, sum(sizes)))
    kept = cut([one(each) for each in sizes], size)
    assert sum(each.size_bytes for each in kept) == size
    assert all(each.size_bytes for each in kept)


def test_the_last_small_ranges_are_merged_when_there_are_enough():
    *_, small, medium = SMALL_BYTES
    assert mergeable([small] * (MERGED_RANGES - 1)) == 0
    assert mergeable([small] * MERGED_RANGES) == MERGED_RANGES
    assert mergeable([medium, *[small] * MERGED_RANGES]) == MERGED_RANGES
    assert mergeable([medium] * MERGED_RANGES) == MERGED_RANGES
    assert mergeable([medium + 1] * 1000) == 0
    assert mergeable([medium + 1, *[medium] * 31, small]) == 0, "one of another kind"
    assert mergeable([medium + 1, *[medium] * 32, small]) == 33
    assert mergeable([]) == 0


@pytest.mark.parametrize("size", [1, 100, 16 << 10, 200 << 10, 1 << 20])
def test_a_file_that_grows_by_little_has_few_ranges_and_is_copied_few_times(size):
    sizes, copied = [], 0
    for _ in range(5000):
        sizes.append(size)
        while count := mergeable(sizes):
            merged = sum(sizes[-count:])
            sizes[-count:] = [merged]
            copied += merged
    total = 5000 * size

    assert len(sizes) <= len(SMALL_BYTES) * MERGED_RANGES + total // SMALL_BYTES[-1] + 1
    assert copied <= len(SMALL_BYTES) * total
