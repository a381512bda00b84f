"""The cache of indexes: eviction, size and growth."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive.damage import DamageRecord, segment_key
from pipeline_broker.log.archive.index_cache import IndexCache
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.segment_file import file_names
from pipeline_broker.log.errors import DamagedSegment
from tests.drawn import drawn, measured
from tests.log.archive.chunk_store import ChunkStore
from tests.log.archive.segments import append_batches, make_batch, write_segment

FOLDERS = ("a-0", "b-0", "c-0")


ACTIONS = ["grow", "grow", "load", "load", "load", "find", "forget"]


@measured(loaded_again=0.2)
@given(
    st.lists(st.tuples(st.sampled_from(FOLDERS), st.sampled_from(ACTIONS)), min_size=10, max_size=25),
    st.sampled_from([0, 600, 1300, 2000, 1 << 20, 1 << 20]),
)
def test_the_cache_keeps_the_last_used_indexes_and_counts_each_once(steps, bytes_max):
    store = ChunkStore()
    cache = IndexCache(store, DamageRecord(), bytes_max)
    builders = {folder: IndexBuilder(0) for folder in FOLDERS}
    segments, kept, is_loaded_again = {}, {}, False

    def grow(folder):
        builder = builders[folder]
        batch = make_batch(builder.last_offset + 1, (5,), 5000)
        segments[folder] = append_batches(store, folder, builder, [batch], segments.get(folder))

    for folder in FOLDERS:
        grow(folder)
    for folder, action in steps:
        segment = segments[folder]
        if action == "grow":
            grow(folder)
            continue
        if action == "forget":
            cache.forget(segment_key(folder, segment))
            kept.pop(folder, None)
        elif action == "find":
            found = cache.find(folder, segment)
            known = kept.get(folder)
            assert (found is not None) == (known is not None and known.size_bytes == segment.size_bytes)
            if known is not None:
                kept[folder] = kept.pop(folder)
        else:
            index = cache.load(folder, segment)
            assert (index.size_bytes, index.last_offset) == (segment.size_bytes, segment.last_offset)
            known = kept.pop(folder, None)
            is_loaded_again |= known is not None and known.size_bytes < index.size_bytes
            kept[folder] = index
            while sum(it.memory_bytes for it in kept.values()) > bytes_max:
                del kept[next(iter(kept))]
        assert len(cache) == len(kept)
        assert cache.size_bytes == sum(it.memory_bytes for it in kept.values()) <= bytes_max
    drawn("loaded_again", is_loaded_again)
    for each in FOLDERS:
        found = cache.find(each, segments[each])
        known = kept.get(each)
        assert (found is not None) == (known is not None and known.size_bytes == segments[each].size_bytes)


def test_an_index_that_reaches_the_damage_is_complete():
    store, damage, builder = ChunkStore(), DamageRecord(), IndexBuilder(0)
    cache = IndexCache(store, damage, 1 << 20)
    first = append_batches(store, "a-0", builder, [make_batch(0)])
    second = append_batches(store, "a-0", builder, [make_batch(1), make_batch(2)], first)
    cache.load("a-0", first)
    for behind_bytes, is_found in ((1, False), (0, True)):
        damage.mark(segment_key("a-0", second), DamagedSegment("a", first.size_bytes + behind_bytes, 1, "bad"))
        assert (cache.find("a-0", second) is not None) is is_found


def test_an_index_grows_to_where_its_reader_knows_of_the_segment_and_not_to_the_end_of_its_files(caplog):
    store, builder, segments = ChunkStore(), IndexBuilder(0), []
    cache = IndexCache(store, DamageRecord(), 1 << 20)
    for number in range(0, 9, 3):
        batches = [make_batch(number + each, (number + each,), 5000) for each in range(3)]
        segments.append(append_batches(store, "a-0", builder, batches, segments[-1] if segments else None))
        if not number:
            cache.load("a-0", segments[0])
    assert cache.load("a-0", segments[1]).size_bytes == segments[1].size_bytes
    assert caplog.records == [], "its files are as they were written"


def test_the_index_files_of_a_deleted_segment_are_not_repaired():
    store = ChunkStore()
    cache = IndexCache(store, DamageRecord(), 1 << 20)
    segment = write_segment(store, [make_batch(number) for number in range(3)], folder="a-0")
    names = file_names("a-0", 0)
    for name in names[1:]:
        store.write(name, [b"damaged"], 0)
    cache.load("a-0", segment)
    cache.forget(segment_key("a-0", segment))
    store.delete(names)
    assert cache.write_repairs() == 0
    assert store.names("a-0") == []
