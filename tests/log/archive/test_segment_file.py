"""The names of a segment's files, and its verified batches."""

from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive import segment_file
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.archive.segment_file import (
    SegmentInfo,
    file_names,
    log_name,
    parse_file_name,
    read_batches,
    rebuilt_index,
    resumed_builder,
)
from pipeline_broker.log.archive.segment_index import SegmentIndex
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.errors import DamagedSegment
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive.chunk_store import ChunkStore
from tests.log.archive.segments import (
    FOLDER,
    add,
    append_batches,
    flipped,
    make_batch,
    overwrite,
    segments,
    write_segment,
)


class PowerCut(Exception):
    pass


def read_all(store, segment, position=0, index=None):
    return [bytes(batch) for _, batch in read_batches(store, FOLDER, segment, position, index)]


def index_of(base_offset, batches):
    builder = IndexBuilder(base_offset)
    for batch in batches:
        add(builder, batch)
    return SegmentIndex.of_builder(builder)


def test_files_are_called_as_kafka_calls_them():
    log, index, time_index = file_names("topic-0", 4711)
    assert log == "topic-0/00000000000000004711.log"
    assert index == "topic-0/00000000000000004711.index"
    assert time_index == "topic-0/00000000000000004711.timeindex"
    for name, suffix in ((log, ".log"), (index, ".index"), (time_index, ".timeindex")):
        assert parse_file_name(name.split("/")[1]) == (4711, suffix)
    for other in ("4711.log", "00000000000000004711.log.cleaned", "00000000000000004711.snapshot", "manifest"):
        assert parse_file_name(other) is None


@given(segments())
def test_a_segment_info_describes_the_written_batches(segment):
    base_offset, batches = segment
    store = ChunkStore()
    builder = IndexBuilder(base_offset)
    first = append_batches(store, FOLDER, builder, batches[:1], generation=3)
    last = append_batches(store, FOLDER, builder, batches[1:], first, is_sealed=True)

    headers = [header for header, _ in read_batches(store, FOLDER, last)]
    assert (first.base_offset, first.generation, first.is_sealed) == (base_offset, 3, False)
    assert (last.base_offset, last.generation, last.is_sealed) == (base_offset, 3, True)
    assert last.last_offset == headers[-1].last_offset
    assert last.size_bytes == sum(map(len, batches))
    assert last.max_timestamp == max(header.max_timestamp for header in headers)
    assert last.first_timestamp == first.first_timestamp == headers[0].max_timestamp


@given(segments(), st.sampled_from([200, 5000, 1 << 20]), st.data())
def test_batches_are_read_whole_from_any_of_them_on_through_windows_of_any_size(segment, window_bytes, data):
    base_offset, batches = segment
    store = ChunkStore()
    info = write_segment(store, batches, base_offset=base_offset)
    overwrite(store, log_name(FOLDER, base_offset), b"".join(batches) + b"garbage of an interrupted write")
    index = index_of(base_offset, batches)
    skipped = data.draw(st.integers(0, len(batches)))
    position = sum(map(len, batches[:skipped]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_file, "WINDOW_BYTES", window_bytes)
        assert read_all(store, info, position, index) == batches[skipped:]
        assert read_all(store, info, position) == batches[skipped:]


def assert_nothing_else_is_read(store, info, batches, index):
    """A prefix of the batches, then damage."""
    found = []
    with pytest.raises(DamagedSegment) as raised:
        found.extend(bytes(batch) for _, batch in read_batches(store, FOLDER, info, 0, index))
    assert found == batches[: len(found)]
    assert raised.value.position == sum(map(len, found))
    return raised.value


SMALL = [make_batch(0, (5,), 3), make_batch(1, (7, 6, 9), 0), make_batch(4, (8,), 10, compression=3)]
WITH_GAPS = [
    make_batch(2, (5,), 3),
    make_batch(30, (7, 6, 9), 0),
    make_batch(33, (8,), 10),
    make_batch(100, (8,), 10),
    make_batch(101, (8,), 10),
]
"""After some gaps the next batch has offsets that no other batch has."""


@pytest.mark.parametrize("batches", [SMALL, WITH_GAPS], ids=["without gaps", "with gaps"])
def test_no_flipped_bit_of_a_segment_is_read(batches):
    store = ChunkStore()
    info = write_segment(store, batches, base_offset=0)
    index, data = index_of(0, batches), b"".join(batches)
    for bit in range(8 * len(data)):
        overwrite(store, log_name(FOLDER, 0), flipped(data, bit))
        damage = assert_nothing_else_is_read(store, info, batches, index)
        assert damage.position <= bit // 8


@pytest.mark.parametrize("batches", [SMALL, WITH_GAPS], ids=["without gaps", "with gaps"])
def test_a_rebuilt_index_ends_before_a_flipped_bit(batches):
    """Also if the index files are missing, and only their recorded checksum confirms skipped offsets."""
    store = ChunkStore()
    info = write_segment(store, batches, base_offset=0)
    data = b"".join(batches)
    assert rebuilt_index(store, FOLDER, info)[1] is None
    for bit in range(8 * len(data)):
        overwrite(store, log_name(FOLDER, 0), flipped(data, bit))
        _, damage = rebuilt_index(store, FOLDER, info)
        assert damage is not None
        assert damage.position <= bit // 8


@pytest.mark.parametrize(("offsets", "believed"), [((0, 1, 2, 3), 3), ((0, 1, 5, 8), 2), ((2, 5, 6, 7), 0)])
def test_without_a_recorded_state_damage_reaches_back_to_the_first_offset_that_was_skipped(offsets, believed):
    store = ChunkStore()
    batches = [make_batch(offset) for offset in offsets]
    info = attrs.evolve(write_segment(store, batches, base_offset=0), indexes=None)
    ends = [sum(map(len, batches[:count])) for count in range(5)]
    assert rebuilt_index(store, FOLDER, info)[1] is None
    overwrite(store, log_name(FOLDER, 0), flipped(b"".join(batches), 8 * (ends[4] - 1)))
    _, damage = rebuilt_index(store, FOLDER, info)
    assert damage.position == ends[believed]
    assert damage.offset == (offsets[believed - 1] + 1 if believed else 0)


def test_batches_before_damage_are_trusted_if_all_recorded_skips_were_found():
    """Also if the unreadable end of the segment made the last entry."""
    store = ChunkStore()
    batches = [make_batch(0), make_batch(5, (1001,)), make_batch(6, (1009,)), make_batch(7, (1002,))]
    info = write_segment(store, batches)
    place = sum(map(len, batches[:3]))
    overwrite(store, log_name(FOLDER, 0), flipped(b"".join(batches), 8 * (place + 70)))
    builder, damage = rebuilt_index(store, FOLDER, info)
    assert (builder.size_bytes, damage.position, damage.offset) == (place, place, 7)


def test_a_batch_that_overlaps_an_indexed_position_is_damage():
    """Its checksum may match nevertheless."""
    store = ChunkStore()
    batches = [make_batch(0, value_size=5000), make_batch(1, value_size=500), make_batch(2)]
    info, index = write_segment(store, batches), index_of(0, batches)
    assert list(index.positions) == [len(batches[0])]
    longer = (make_batch(0, value_size=size) for size in range(5500, 5600))
    over = next(it for it in longer if len(it) == len(batches[0]) + len(batches[1]))
    overwrite(store, log_name(FOLDER, 0), over + batches[2])
    assert assert_nothing_else_is_read(store, info, batches, index).position == 0


def test_a_truncated_segment_yields_the_batches_before_the_cut():
    store = ChunkStore()
    info = write_segment(store, SMALL)
    data = b"".join(SMALL)
    for size in range(len(data)):
        overwrite(store, log_name(FOLDER, 0), data[:size])
        damage = assert_nothing_else_is_read(store, info, SMALL, None)
        assert damage.position <= size


def test_missing_last_batches_are_damage():
    store = ChunkStore()
    info = attrs.evolve(write_segment(store, SMALL), last_offset=9)

    damage = assert_nothing_else_is_read(store, info, SMALL, None)

    assert (damage.position, damage.offset) == (info.size_bytes, 5)
    assert damage.error_name == "CORRUPT_MESSAGE"
    assert str(damage) == (
        f"topic-0/00000000000000000000.log is damaged at byte {info.size_bytes}, offset 5: the last batches are missing"
    )


class WatchedStore(ChunkStore):
    def __init__(self):
        super().__init__()
        self.sizes = []

    def read(self, name, size_bytes, position):
        self.sizes.append(size_bytes)
        return super().read(name, size_bytes, position)


def test_a_large_batch_is_read_whole_and_a_damaged_length_costs_no_memory(monkeypatch):
    monkeypatch.setattr(segment_file, "WINDOW_BYTES", 1000)
    batches = [make_batch(0), make_batch(1, value_size=5000), make_batch(2), *(make_batch(n) for n in range(3, 90))]
    store = WatchedStore()
    info = write_segment(store, batches)
    assert read_all(store, info) == batches
    assert max(store.sizes) == len(batches[1])

    data, length_at = b"".join(batches), len(batches[0]) + 8
    for bit in range(32):
        damaged = flipped(data, 8 * length_at + bit)
        overwrite(store, log_name(FOLDER, 0), damaged)
        store.sizes.clear()
        assert_nothing_else_is_read(store, info, batches, None)
        assert max(store.sizes) <= 1000


def test_a_batch_length_beyond_the_segment_is_not_read(monkeypatch):
    monkeypatch.setattr(segment_file, "WINDOW_BYTES", 1000)
    store, batch = WatchedStore(), make_batch(0, value_size=5000)
    info = write_segment(store, [batch])
    overwrite(store, log_name(FOLDER, 0), flipped(batch, 8 * 8 + 6))
    with pytest.raises(DamagedSegment):
        read_all(store, info)
    assert store.sizes == [1000]


@given(segments(), st.data())
def test_a_builder_resumed_from_the_files_gives_the_same_index(segment, data):
    """Every file may have leftover bytes of an interrupted write after the counted ones."""
    base_offset, batches = segment
    expected = ChunkStore()
    whole = write_segment(expected, batches, base_offset=base_offset)
    store, info = ChunkStore(), None
    builder = IndexBuilder(base_offset)
    names = file_names(FOLDER, base_offset)
    for number, batch in enumerate(batches):
        is_last = number == len(batches) - 1
        info = append_batches(store, FOLDER, builder, [batch], info, is_sealed=is_last)
        if is_last or not data.draw(st.booleans()):
            continue
        for name in names:
            store.write(name, [data.draw(st.binary(max_size=40))], store.size_bytes(name))
        if data.draw(st.booleans()):
            damaged = data.draw(st.sampled_from(names[1:]))
            store.write(damaged, [data.draw(st.binary(max_size=5))], 0)
        builder = resumed_builder(store, FOLDER, info)
    assert info == whole
    for name in names:
        assert bytes(store.read(name, 1 << 30, 0)) == bytes(expected.read(name, 1 << 30, 0))


@given(segments(count_max=12), st.lists(st.integers(0, 60), max_size=4), st.randoms(use_true_random=False))
def test_synced_segments_survive_every_power_cut(segment, cuts, dice):
    """Power is cut before, during and after later writes; the archiver then continues from the manifest."""
    base_offset, batches = segment
    files, directory = MemoryFileSystem(), Path("/archive")
    info, number, cuts_left = None, 0, iter(cuts)
    while number < len(batches):
        store = LocalStore(files, directory)
        builder = IndexBuilder(base_offset) if info is None else resumed_builder(store, FOLDER, info)
        operations = next(cuts_left, -1)

        def cut(_operation, _path):
            nonlocal operations
            if operations == 0:
                raise PowerCut
            operations -= 1

        files.before = cut
        try:
            while number < len(batches):
                count = dice.randint(1, 3)
                info = append_batches(store, FOLDER, builder, batches[number : number + count], info)
                number += count
        except PowerCut:
            files.before = lambda operation, path: None
            files.power_cut(lambda n: dice.randint(0, n))
        files.before = lambda operation, path: None
    assert read_all(LocalStore(files, directory), info) == batches
    reader = SegmentReader(LocalStore(files, directory))
    assert [bytes(batch) for _, batch in reader.batches(FOLDER, info)] == batches
    assert reader.write_repairs() == 0


def test_no_builder_is_resumed_from_a_damaged_segment():
    store = ChunkStore()
    batches = [make_batch(n, value_size=3000) for n in range(5)]
    info = write_segment(store, batches, is_sealed=False)
    data = b"".join(batches)
    overwrite(store, log_name(FOLDER, 0), flipped(data, 8 * len(data) - 1))
    with pytest.raises(DamagedSegment):
        resumed_builder(store, FOLDER, info)
    overwrite(store, log_name(FOLDER, 0), data[:-1])
    with pytest.raises(DamagedSegment):
        resumed_builder(store, FOLDER, info)


def test_a_builder_resumed_from_the_files_appends_to_them():
    store = ChunkStore()
    info = write_segment(store, [make_batch(n, (n,), 3000) for n in range(5)], is_sealed=False)
    taken = resumed_builder(store, FOLDER, info).take()
    assert taken.offset_position == info.indexes.offset_index_bytes > 0
    assert taken.time_position == info.indexes.time_index_bytes > 0


def test_a_builder_without_a_recorded_state_rebuilds_the_indexes():
    store = ChunkStore()
    batches = [make_batch(n, value_size=3000) for n in range(5)]
    info = write_segment(store, batches, is_sealed=False)
    builder = resumed_builder(store, FOLDER, attrs.evolve(info, indexes=None))
    taken = builder.take()
    assert (taken.offset_position, taken.time_position) == (0, 0)
    assert SegmentInfo.written(builder) == info


@pytest.mark.parametrize(("expected", "offset"), [(None, -1), (0, 0), (7, 7)])
def test_damage_at_an_unknown_offset_reports_no_offset(expected, offset):
    assert segment_file.not_whole("a.log", 5, expected, is_short=False).offset == offset
