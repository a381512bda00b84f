"""Sequential reads of a segment, each starting at the end of the one before."""

import pytest

from pipeline_broker.log.archive import segment_reader
from pipeline_broker.log.archive.index_files import INDEX_INTERVAL_BYTES
from pipeline_broker.log.archive.segment_file import log_name
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.read_result import SPAN_BYTES_MAX
from pipeline_broker.records.batch import iterate_batches
from tests.log.archive.chunk_store import ChunkStore
from tests.log.archive.segments import FOLDER, make_batch, write_segment


def read(reader, info, offset, bytes_max):
    result = reader.read(FOLDER, info, offset, bytes_max, at_least_one=True)
    return b"".join(result.cold() if result.cold else result.parts)


@pytest.mark.parametrize("span_bytes_max", [SPAN_BYTES_MAX, 20_000])
@pytest.mark.parametrize("is_cold", [False, True])
def test_a_sequential_reader_reads_at_most_one_index_interval_more(is_cold, span_bytes_max, monkeypatch):
    """Batches that are too large for the rest of a read are not read in vain, nor those before the first one again."""
    monkeypatch.setattr(segment_reader, "SPAN_BYTES_MAX", span_bytes_max)
    asked = []

    class Noting(ChunkStore):
        def read(self, name, size_bytes, position):
            asked.append(size_bytes)
            return super().read(name, size_bytes, position)

    for records, value_size, bytes_max in (
        (1, 90_000, 100_000),
        (30, 3000, 100_000),
        (30, 3000, 1),
        (10, 3000, 100_000),
        (16, 100, 10_000),
        (1, 50, 10_000),
    ):
        store = Noting()
        count = 300_000 // (records * value_size)
        batches = [make_batch(n * records, (1000,) * records, value_size) for n in range(count)]
        info = write_segment(store, batches)
        reader = SegmentReader(store)
        got = len(read(reader, info, 0, 1))
        offset, reads = records, 0
        asked.clear()
        store.is_cold = is_cold
        while offset <= info.last_offset:
            data = read(reader, info, offset, bytes_max)
            got += len(data)
            reads += 1
            *_, (last, _) = iterate_batches(data)
            offset = last.last_offset + 1
        assert got == info.size_bytes
        assert sum(asked) <= info.size_bytes + reads * INDEX_INTERVAL_BYTES


def test_sequential_cold_reads_are_read_ahead():
    batches = [make_batch(n, value_size=3000) for n in range(50)]
    store = ChunkStore()
    info = write_segment(store, batches)
    name = log_name(FOLDER, 0)
    reader = SegmentReader(store)
    store.is_cold = True
    read(reader, info, 20, 10_000)
    assert store.read_aheads == [], "somewhere in the middle, for the first time"
    read(reader, info, 23, 10_000)
    ((asked, size, position),) = store.read_aheads
    assert asked == name
    assert position <= 23 * len(batches[0]) < position + size <= info.size_bytes
    store.read_aheads.clear()
    read(reader, info, 40, 10_000)
    assert store.read_aheads == []
    for offset in (30, 31):
        assert reader.read(FOLDER, info, offset, 10, at_least_one=False).cold() == []
        read(reader, info, offset, 10_000)
    assert store.read_aheads == [], "an empty read has no end position"
    read(reader, info, 0, 10_000)
    assert len(store.read_aheads) == 1, "a read from the start counts as sequential"
    store.read_aheads.clear()
    store.is_cold = False
    read(reader, info, 3, 10_000)
    assert store.read_aheads == [], "cached bytes need none"


def test_end_positions_are_bounded_and_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(segment_reader, "SEQUENCES_MAX", 2)
    batches = [make_batch(n, value_size=3000) for n in range(50)]
    store = ChunkStore()
    info = write_segment(store, batches)
    reader = SegmentReader(store)
    store.is_cold = True
    for offset in (10, 20, 30):
        read(reader, info, offset, 10_000)
    for offset, is_known in ((23, True), (33, True), (13, False)):
        store.read_aheads.clear()
        read(reader, info, offset, 10_000)
        assert bool(store.read_aheads) is is_known
