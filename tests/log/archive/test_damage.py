"""Damaged files: indexes are rebuilt, a flipped bit of a segment is never served, and damage is logged once."""

import logging

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive import damage as damage_module
from pipeline_broker.log.archive import index_cache
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.segment_file import SegmentInfo, file_names, log_name
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.errors import REMEDY, DamagedSegment, SegmentGone
from pipeline_broker.records.batch import CHECKED_FROM, LENGTH_OVERHEAD, iterate_batches, read_header
from pipeline_broker.records.checksum import crc32c
from tests.drawn import drawn, measured
from tests.log.archive.chunk_store import ChunkStore
from tests.log.archive.segments import FOLDER, Naive, append_batches, flipped, make_batch, overwrite, write_segment
from tests.log.archive.test_segment_reader import read, search

LARGE = [make_batch(n, (10 * n,), 2000) for n in range(12)]
WITH_GAPS = [make_batch(3 * n, (10 * n,), 20) for n in range(6)] + [make_batch(16, (70,), 20)]


@pytest.fixture
def errors(caplog):
    caplog.set_level(logging.ERROR, logger=damage_module.__name__)
    return lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def assert_reads_as_ever(reader, info, batches):
    naive = Naive(batches)
    for batch in batches:
        offset = read_header(batch).last_offset
        assert read(reader, info, offset, 1) == batch
    for timestamp in range(-1, info.max_timestamp + 2, 5):
        assert search(reader, info, timestamp) == naive.offset_for_timestamp(timestamp)
    assert b"".join(bytes(batch) for _, batch in reader.batches(FOLDER, info)) == b"".join(batches)


@pytest.mark.parametrize("batches", [LARGE, WITH_GAPS], ids=["without gaps", "with gaps"])
@pytest.mark.parametrize("which", [1, 2])
def test_an_index_file_with_any_flipped_bit_or_cut_anywhere_is_rebuilt(which, batches):
    store = ChunkStore()
    info = write_segment(store, batches, base_offset=0)
    name = file_names(FOLDER, 0)[which]
    intact = bytes(store.read(name, 1 << 20, 0))
    assert intact
    damaged = [flipped(intact, bit) for bit in range(8 * len(intact))]
    damaged += [intact[:size] for size in range(len(intact))]
    for content in damaged:
        overwrite(store, name, content)
        reader = SegmentReader(store)
        assert_reads_as_ever(reader, info, batches)
        assert bytes(store.read(name, 1 << 20, 0)) == content, "only the thread that writes may write"
        assert reader.write_repairs() == 1
        assert bytes(store.read(name, 1 << 20, 0)) == intact
        assert reader.write_repairs() == 0


def test_missing_index_files_are_rebuilt_and_bytes_after_the_counted_ones_ignored():
    store = ChunkStore()
    info = write_segment(store, LARGE)
    _, *names = file_names(FOLDER, 0)
    intact = [bytes(store.read(name, 1 << 20, 0)) for name in names]
    for name in names:
        store.write(name, [b"an interrupted write"], store.size_bytes(name))
    reader = SegmentReader(store)
    assert_reads_as_ever(reader, info, LARGE)
    assert reader.write_repairs() == 0
    store.delete(names)
    reader = SegmentReader(store)
    assert_reads_as_ever(reader, info, LARGE)
    assert reader.write_repairs() == 2
    store.power_cut()
    assert [bytes(store.read(name, 1 << 20, 0)) for name in names] == intact


def test_an_index_of_another_segment_is_not_believed():
    """It increases and lies within the bounds, but is stale. Case 32."""
    store = ChunkStore()
    other = [make_batch(n, (10 * n,), 2010) for n in range(12)]
    write_segment(store, other)
    _, *names = file_names(FOLDER, 0)
    stale = [bytes(store.read(name, 1 << 20, 0)) for name in names]
    info = write_segment(store, LARGE)
    for name, content in zip(names, stale, strict=True):
        overwrite(store, name, content)
    assert_reads_as_ever(SegmentReader(store), info, LARGE)


def test_an_index_without_a_recorded_state_is_rebuilt_and_a_correct_file_kept():
    store = ChunkStore()
    info = attrs.evolve(write_segment(store, LARGE), indexes=None)
    reader = SegmentReader(store)
    assert_reads_as_ever(reader, info, LARGE)
    assert reader.write_repairs() == 0


def test_the_index_files_of_a_segment_that_grows_are_left_to_its_writer():
    store, builder = ChunkStore(), IndexBuilder(0)
    info = append_batches(store, FOLDER, builder, LARGE)
    overwrite(store, file_names(FOLDER, 0)[1], b"?")
    reader = SegmentReader(store)
    assert_reads_as_ever(reader, info, LARGE)
    assert reader.write_repairs() == 0


def test_index_files_of_a_deleted_segment_are_not_repaired():
    store = ChunkStore()
    info = write_segment(store, LARGE)
    store.delete(file_names(FOLDER, 0)[1:])
    reader = SegmentReader(store)
    read(reader, info, 0, 1)
    reader.forget(FOLDER, info)
    assert reader.write_repairs() == 0
    assert store.names(FOLDER) == [log_name(FOLDER, 0).split("/")[1]]


def test_index_files_to_be_written_again_are_bounded(monkeypatch):
    monkeypatch.setattr(index_cache, "REPAIRS_MAX", 2)
    store = ChunkStore()
    reader = SegmentReader(store)
    for number in range(4):
        info = write_segment(store, LARGE, folder=f"topic-{number}")
        store.delete([file_names(f"topic-{number}", 0)[1]])
        reader.read(f"topic-{number}", info, 0, 1, at_least_one=True).cold()
    assert reader.write_repairs() == 2


def read_until_damage(reader, info):
    """Return all batches that can be read, one fetch after the other, and the error that ends it."""
    found, offset = [], 0
    while True:
        try:
            data = read(reader, info, offset, 5000)
        except DamagedSegment as damage:
            return found, damage
        for header, batch in iterate_batches(data):
            found.append(bytes(batch))
            offset = header.last_offset + 1
        assert data
        if offset > info.last_offset:
            return found, None


@pytest.mark.parametrize("with_index", [True, False], ids=["with index", "index rebuilt"])
@pytest.mark.parametrize("is_cold", [True, False], ids=["cold", "hot"])
@pytest.mark.parametrize("batches", [LARGE, WITH_GAPS], ids=["without gaps", "with gaps"])
def test_a_flipped_bit_of_a_segment_is_never_served(batches, is_cold, with_index, errors):
    """Case 28."""
    store = ChunkStore()
    info = write_segment(store, batches, base_offset=0)
    data, name = b"".join(batches), log_name(FOLDER, 0)
    heads = {8 * (sum(map(len, batches[:n])) + at) + (n + at) % 8 for n in (0, 1, 5) for at in range(63)}
    bits = sorted(heads | set(range(0, 8 * len(data), 8 * len(data) // 50)) | {8 * len(data) - 1})
    for number, bit in enumerate(bits, 1):
        overwrite(store, name, data)
        reader = SegmentReader(store)
        if not is_cold:
            read(reader, info, 0, 1)
        if not with_index:
            store.delete(file_names(FOLDER, 0)[1:])
        overwrite(store, name, flipped(data, bit))
        store.is_cold = is_cold
        found, damage = read_until_damage(reader, info)
        assert found == batches[: len(found)]
        assert damage is not None
        assert damage.position <= bit // 8
        if with_index:
            assert bit // 8 < damage.position + len(batches[len(found)]), "batches before the damage are served"
        with pytest.raises(DamagedSegment):
            read(reader, info, info.last_offset, 1 << 20)
        with pytest.raises(DamagedSegment):
            list(reader.batches(FOLDER, info))
        assert len(errors()) == number, "one line for each damage"


@pytest.mark.parametrize("length", [9, 48])
def test_bytes_shorter_than_a_header_are_not_a_batch(length):
    store = ChunkStore()
    info = write_segment(store, LARGE)
    body = bytes(LENGTH_OVERHEAD + length - CHECKED_FROM)
    short = bytes(8) + length.to_bytes(4, "big") + bytes(4) + b"\2" + crc32c(body).to_bytes(4, "big") + body
    overwrite(store, log_name(FOLDER, 0), short + b"".join(LARGE)[len(short) :])
    with pytest.raises(DamagedSegment, match="no batch begins here"):
        read(SegmentReader(store), info, 0, 1)


def test_a_batch_with_a_negative_offset_delta_is_damage():
    store = ChunkStore()
    info = write_segment(store, LARGE)
    first = bytearray(LARGE[0])
    first[23:27] = (-1).to_bytes(4, "big", signed=True)
    first[17:21] = crc32c(bytes(first[CHECKED_FROM:])).to_bytes(4, "big")
    overwrite(store, log_name(FOLDER, 0), b"".join([first, *LARGE[1:]]))
    with pytest.raises(DamagedSegment, match="at byte 0, offset 0: the batch does not belong to this segment"):
        read(SegmentReader(store), info, 0, 1)


@pytest.mark.parametrize("number", [0, 1, 5])
@pytest.mark.parametrize(
    "damaged",
    [lambda data, start: flipped(data, 8 * (start + 7)), lambda data, start: data[:start]],
    ids=["has another offset, which no checksum covers", "is cut off"],
)
@pytest.mark.parametrize(
    "find",
    [
        lambda reader, info, number: read(reader, info, number, 1),
        lambda reader, info, number: search(reader, info, 10 * number),
    ],
    ids=["by offset", "by time"],
)
def test_a_read_of_a_damaged_batch_reports_its_position(find, damaged, number):
    store = ChunkStore()
    info = write_segment(store, LARGE)
    start = number * len(LARGE[0])
    overwrite(store, log_name(FOLDER, 0), damaged(b"".join(LARGE), start))
    with pytest.raises(DamagedSegment) as raised:
        find(SegmentReader(store), info, number)
    assert raised.value.position == start


def test_a_segment_once_found_damaged_is_not_served_again(errors):
    store = ChunkStore()
    info = write_segment(store, LARGE)
    data, name = b"".join(LARGE), log_name(FOLDER, 0)
    overwrite(store, name, flipped(data, 8 * 9_000))
    reader = SegmentReader(store)
    found, damage = read_until_damage(reader, info)
    overwrite(store, name, data)

    again, second = read_until_damage(reader, info)

    assert found == again == LARGE[: len(found)]
    assert (second.position, second.offset) == (damage.position, damage.offset) == (4 * len(LARGE[0]), 4)
    assert search(reader, info, 20) == (20, 2, 0)
    with pytest.raises(DamagedSegment):
        search(reader, info, 60)
    with pytest.raises(DamagedSegment):
        list(reader.batches(FOLDER, info))
    assert damage.reason == "the checksum of the batch is wrong"
    where = f"at byte {damage.position}, offset 4"
    assert errors() == [
        f"{name} is damaged {where}: {damage.reason}; the broker serves no more of this segment. {REMEDY}"
    ]
    assert len(read_until_damage(SegmentReader(store), info)[0]) == 12, "another process may look again"


@measured(cut=0.5)
@given(st.integers(0, 12), st.integers(0, 4000), st.booleans())
def test_a_segment_that_is_cut_is_served_up_to_the_cut(whole, more, with_index):
    store = ChunkStore()
    info = write_segment(store, LARGE)
    data = b"".join(LARGE)[: whole * len(LARGE[0]) + more]
    if not drawn("cut", len(data) < info.size_bytes):
        return
    overwrite(store, log_name(FOLDER, 0), data)
    if not with_index:
        store.delete(file_names(FOLDER, 0)[1:])
    found, damage = read_until_damage(SegmentReader(store), info)
    assert found == LARGE[: len(data) // len(LARGE[0])]
    assert damage.position == sum(map(len, found))


def test_a_segment_is_damaged_from_the_first_place_that_was_found_on(errors):
    record, key = damage_module.DamageRecord(), (FOLDER, 0, 0)
    for position, first in ((100, 100), (200, 100), (50, 50)):
        record.mark(key, DamagedSegment("a.log", position, 0, "bad"))
        assert record.find(key).position == first
    assert len(errors()) == 1


def test_a_last_batch_that_ends_before_the_segment_does_lacks_the_record_that_ends_it():
    """Another one of the same size, and whole."""
    store = ChunkStore()
    info = write_segment(store, [make_batch(0), make_batch(1, (1000, 1000))])
    shorter = next(it for size in range(500) if len(it := make_batch(0, (1000,), size)) == info.size_bytes)
    overwrite(store, log_name(FOLDER, 0), shorter)
    with pytest.raises(DamagedSegment, match="the last batches are missing") as raised:
        read(SegmentReader(store), info, 1, 1 << 20)
    assert (raised.value.position, raised.value.offset) == (info.size_bytes, info.last_offset)


def test_a_missing_segment_is_damage(errors):
    store = ChunkStore()
    info = write_segment(store, LARGE)
    store.delete([log_name(FOLDER, 0)])
    reader = SegmentReader(store)
    for work in (lambda: read(reader, info, 3, 1), lambda: search(reader, info, 3)):
        with pytest.raises(DamagedSegment, match="the file is missing") as raised:
            work()
        assert (raised.value.position, raised.value.offset) == (0, 0), "all of it"
    assert len(errors()) == 1


def test_a_deleted_folder_is_logged_once_per_segment_although_consumers_retry(caplog):
    store = ChunkStore()
    infos = [write_segment(store, LARGE, folder=folder) for folder in ("topic-0", "topic-1")]
    for number in range(2):
        store.delete(file_names(f"topic-{number}", 0))
    reader = SegmentReader(store)
    for number, info in [*enumerate(infos)] * 5:
        with pytest.raises(DamagedSegment, match="the file is missing"):
            reader.read(f"topic-{number}", info, 3, 1, at_least_one=True).cold()
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2
    assert caplog.messages[0].endswith(f"the broker serves no more of this segment. {REMEDY}")


class TestGone:
    """A segment that is deleted or replaced while it is read."""

    def test_a_read_that_began_before_is_told_so_and_nothing_is_taken_for_damage(self, errors):
        store = ChunkStore()
        info = write_segment(store, LARGE)
        reader = SegmentReader(store)
        begun = [reader.read(FOLDER, info, offset, 1, at_least_one=True).cold for offset in (0, 9)]
        batches = reader.batches(FOLDER, info)
        next(batches)

        reader.forget(FOLDER, info)
        compacted = write_segment(store, [LARGE[3], make_batch(9, (1, 2, 3), 3000)], base_offset=0, generation=1)

        for cold in begun:
            with pytest.raises(SegmentGone, match="was deleted or replaced"):
                cold()
        assert_reads_as_ever(reader, compacted, [LARGE[3], make_batch(9, (1, 2, 3), 3000)])
        store.delete(file_names(FOLDER, 0))
        reader.forget(FOLDER, compacted)
        with pytest.raises(SegmentGone):
            read(reader, compacted, 9, 1 << 20)
        assert errors() == []

    def test_nothing_of_a_segment_is_kept_when_it_is_gone(self):
        store = ChunkStore()
        info = write_segment(store, LARGE)
        overwrite(store, log_name(FOLDER, 0), flipped(b"".join(LARGE), 8 * 10_000))
        store.delete(file_names(FOLDER, 0)[1:])
        reader = SegmentReader(store)
        read_until_damage(reader, info)
        reader.forget(FOLDER, info)
        assert len(reader._indexes) == reader._indexes.size_bytes == 0
        assert reader._damage._damaged == {}
        assert reader.write_repairs() == 0

    def test_those_that_are_gone_are_forgotten_one_day(self, monkeypatch):
        monkeypatch.setattr(damage_module, "GONE_MAX", 3)
        record = damage_module.DamageRecord()
        for number in range(5):
            record.retire((FOLDER, 0, number))
        assert [record.is_gone((FOLDER, 0, number)) for number in range(5)] == [False, False, True, True, True]


def test_damage_of_a_segment_does_not_apply_to_its_replacement():
    """A topic may have the name of a deleted one. Its first segment is neither damaged nor deleted."""
    former = SegmentInfo(0, 9, 100, 5, 5, generation=1)
    latter, record = attrs.evolve(former, generation=2), damage_module.DamageRecord()
    key, other = (damage_module.segment_key(FOLDER, each) for each in (former, latter))
    record.mark(key, DamagedSegment(log_name(FOLDER, 0, 0), 0, 0, "damaged"))
    assert record.find(key) is not None
    assert record.find(other) is None
    record.retire(key)
    assert record.is_gone(key)
    assert not record.is_gone(other)
