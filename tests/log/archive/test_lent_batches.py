"""Batches that are lent without reading them: verified ones of undamaged segments, and nothing else."""

import gc

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local import local_store
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.archive.segment_file import log_name
from pipeline_broker.log.archive.segment_reader import LENT_BYTES_MIN, SegmentReader
from pipeline_broker.log.archive.verified_batches import BATCH_BYTES_MIN
from pipeline_broker.log.errors import DamagedSegment
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive.chunk_store import ChunkStore
from tests.log.archive.segments import FOLDER, make_batch, overwrite, write_segment

LARGE = [make_batch(n, value_size=LENT_BYTES_MIN // 2) for n in range(8)]
SIZE = len(LARGE[0])
WHOLE = b"".join(LARGE)


class Bench:
    def __init__(self, directory, batches=LARGE, files=None):
        self.store = LocalStore(files or SystemFileSystem(), directory / "archive")
        self.info = write_segment(self.store, batches)
        self.name = log_name(FOLDER, 0)
        self.reader = SegmentReader(self.store)

    def read(self, offset=0, bytes_max=1 << 30):
        result = self.reader.read(FOLDER, self.info, offset, bytes_max, at_least_one=True)
        return b"".join(result.cold() if result.cold else result.parts)

    def lend(self, offset=0, bytes_max=1 << 30):
        return self.reader.lend(FOLDER, self.info, offset, bytes_max)

    def lent(self, offset=0, bytes_max=1 << 30):
        lent = self.lend(offset, bytes_max)
        return None if lent is None else lent.range.read(lent.range.position, lent.range.size_bytes)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@given(
    sizes=st.lists(
        st.sampled_from([10, BATCH_BYTES_MIN // 2, BATCH_BYTES_MIN, LENT_BYTES_MIN]), min_size=1, max_size=8
    ),
    reads=st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.sampled_from([1, SIZE, 3 * SIZE, 1 << 20]))),
)
def test_lent_bytes_are_those_that_were_read_before(tmp_path_factory, sizes, reads):
    bench = Bench(tmp_path_factory.mktemp("lent"), [make_batch(n, value_size=size) for n, size in enumerate(sizes)])
    whole, was_read = bench.read(0), set()
    bench.reader = SegmentReader(bench.store)
    for is_read, offset, bytes_max in reads:
        offset %= len(sizes)
        if is_read:
            data = bench.read(offset, bytes_max)
            start = whole.index(data)
            was_read.update(range(start, start + len(data)))
        elif (lent := bench.lend(offset, bytes_max)) is not None:
            found = range(lent.range.position, lent.range.position + lent.range.size_bytes)
            assert was_read.issuperset(found)
            assert len(found) <= bytes_max
            data = bench.read(offset, bytes_max)
            assert data.startswith(lent.range.read(found.start, len(found)))
            was_read.update(range(found.start, found.start + len(data)))
            assert lent.end_offset > offset


def test_batches_are_read_once_and_lent_afterwards(bench):
    assert bench.lent() is None
    assert bench.read() == WHOLE
    assert bench.lent() == WHOLE
    assert bench.lent(3, 2 * SIZE) == WHOLE[3 * SIZE : 5 * SIZE]


def test_a_read_continues_where_a_loan_ended_without_its_index(bench):
    bench.read(0, 4 * SIZE)
    assert bench.lent() == WHOLE[: 4 * SIZE]
    assert bench.read(4) == WHOLE[4 * SIZE :]


def test_few_bytes_are_read_and_not_lent(bench):
    bench.read()
    assert bench.lent(0, LENT_BYTES_MIN - 1) is None
    assert bench.lent(7) is None  # the last batch
    assert bench.lent(0, 1) is None  # the first batch is larger


def test_a_reader_with_earlier_metadata_borrows_nothing_beyond_them(bench):
    bench.read()
    bench.info = attrs.evolve(bench.info, last_offset=4)
    assert bench.lent() == WHOLE[: 5 * SIZE]


def test_damage_before_the_first_read_is_found_and_nothing_of_the_segment_is_lent(bench):
    damaged = bytearray(WHOLE)
    damaged[4 * SIZE + 100] ^= 1
    overwrite(bench.store, bench.name, bytes(damaged))
    assert bench.read() == WHOLE[: 4 * SIZE]
    assert bench.lent() == WHOLE[: 4 * SIZE]
    with pytest.raises(DamagedSegment):
        bench.read(4)
    assert bench.lent() is None
    assert bench.read() == WHOLE[: 4 * SIZE]


def test_later_damage_is_left_to_the_client(bench):
    bench.read()
    damaged = bytearray(WHOLE)
    damaged[100] ^= 1
    overwrite(bench.store, bench.name, bytes(damaged))
    assert bench.lent() == bytes(damaged)


@pytest.mark.parametrize("files", [SystemFileSystem, MemoryFileSystem])
def test_lent_bytes_outlive_their_file(tmp_path, files):
    bench = Bench(tmp_path, files=files())
    bench.read()
    deleted, replaced = bench.lend(), bench.lend(3)
    bench.reader.forget(FOLDER, bench.info)
    assert bench.lend() is None
    bench.store.write(f"{FOLDER}/other", [b"other"], 0)
    bench.store.replace(f"{FOLDER}/other", bench.name)
    assert replaced.range.read(3 * SIZE, 5 * SIZE) == WHOLE[3 * SIZE :]
    bench.store.delete([bench.name])
    assert deleted.range.read(0, len(WHOLE)) == WHOLE
    assert deleted.range._file is None  # it holds no space of the disk


def test_no_more_ranges_are_lent_than_descriptors_allow(bench, monkeypatch):
    monkeypatch.setattr(local_store, "RANGES_LENT_MAX", 2)
    bench.read()
    lent = [bench.lend() for _ in range(3)]
    assert [one is None for one in lent] == [False, False, True]
    del lent
    gc.collect()
    assert bench.lend() is not None


def test_a_store_without_files_lends_nothing():
    store = ChunkStore()
    info = write_segment(store, LARGE)
    reader = SegmentReader(store)
    result = reader.read(FOLDER, info, 0, 1 << 30, at_least_one=True)
    assert b"".join(result.cold()) == WHOLE
    assert reader.lend(FOLDER, info, 0, 1 << 30) is None
