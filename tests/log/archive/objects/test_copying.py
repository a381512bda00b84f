"""Copying and merging in an object store, so that objects can be deleted and files have few ranges."""

import pytest

from pipeline_broker.log.archive.objects import object_store as tested
from pipeline_broker.log.archive.objects.file_map import MERGED_RANGES, SMALL_BYTES
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import list_all
from tests.log.archive.objects.object_stores import BytesLog, object_store, reopened


@pytest.fixture
def setting():
    log, objects = BytesLog(), MemoryStore()
    store = object_store(log, objects, 1 << 20)
    yield store, log, objects
    store.close()


def sizes_of(objects):
    return sorted(size for _, size in list_all(objects, ""))


@pytest.mark.parametrize(("kept", "gone", "is_copied"), [(50, 50, False), (49, 51, True), (51, 49, False)])
def test_an_object_is_deleted_when_less_than_half_of_it_is_used(setting, kept, gone, is_copied):
    store, log, objects = setting
    store.write("t-0/a.log", [b"a" * kept], 0)
    store.write("t-0/b.log", [b"b" * gone], 0)
    store.sync(["t-0/a.log"])
    store.delete(["t-0/b.log"])
    assert sizes_of(objects) == [kept if is_copied else kept + gone]
    assert bytes(reopened(log, objects).read("t-0/a.log", 100, 0)) == b"a" * kept


def test_a_sync_copies_a_bounded_number_of_bytes_and_the_next_continues(setting, monkeypatch):
    monkeypatch.setattr(tested, "COPIED_BYTES_MAX", 20)
    store, log, objects = setting
    for number in range(5):
        store.write(f"t-{number}/a.log", [b"%d" % number * 10], 0)
        store.write(f"t-{number}/b.log", [b"x" * 20], 0)
        store.sync([f"t-{number}/a.log"])
    store.delete([f"t-{number}/b.log" for number in range(5)])
    assert sizes_of(objects) == [20, 30, 30, 30]
    store.write("u-0/a.log", [b"new"], 0)
    store.sync(["u-0/a.log"])
    assert sizes_of(objects) == [20, 23, 30]
    again = reopened(log, objects)
    assert [bytes(again.read(f"t-{number}/a.log", 100, 0)) for number in range(5)] == [b"%d" % n * 10 for n in range(5)]


@pytest.mark.parametrize(("merges_min", "share", "files", "merged"), [(1, 16, 3, 1), (2, 16, 3, 2), (1, 2, 4, 2)])
def test_a_sync_merges_a_bounded_number_of_files(setting, monkeypatch, merges_min, share, files, merged):
    """At least, or a share of those that it writes."""
    monkeypatch.setattr(tested, "MERGES_MIN", merges_min)
    monkeypatch.setattr(tested, "MERGES_SHARE", share)
    store, log, _ = setting
    names = [f"t-{number}/a.log" for number in range(files)]
    for place in range(MERGED_RANGES + 1):
        for name in names:
            store.write(name, [b"x"], place)
        store.sync(names)
    ranges = sorted(len(log.files.files[name]) for name in names)
    assert ranges == [1] * merged + [MERGED_RANGES + 1] * (files - merged)
    for name in names:
        assert bytes(store.read(name, 100, 0)) == b"x" * (MERGED_RANGES + 1)


def test_large_ranges_stay_when_later_ones_are_merged(setting):
    store, log, _ = setting
    name, large = "t-0/a.log", SMALL_BYTES[0] + 1
    store.write(name, [bytes(large)], 0)
    store.sync([name])
    (first,) = log.files.files[name]
    for place in range(MERGED_RANGES + 1):
        store.write(name, [b"x"], large + place)
        store.sync([name])
    ranges = log.files.files[name]
    assert ranges[0] == first
    assert [it.size_bytes for it in ranges] == [large, MERGED_RANGES + 1]


def test_cached_blocks_of_a_deleted_object_are_dropped(setting):
    store, _, _ = setting
    store.write("t-0/a.log", [bytes(50)], 0)
    store.sync(["t-0/a.log"])
    assert store.cache.size_bytes == 50
    store.delete(["t-0/a.log"])
    assert store.cache.size_bytes == 0
