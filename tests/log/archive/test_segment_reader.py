"""Reads of segments by offset and by timestamp, hot and cold, compared with a scan over the batches."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive import segment_reader
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.archive.segment_file import file_names, log_name
from pipeline_broker.log.archive.segment_index import OBJECT_BYTES
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.errors import DamagedSegment, SegmentGone
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.records.batch import iterate_batches, read_header
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive.chunk_store import ChunkStore
from tests.log.archive.segments import FOLDER, Naive, append_batches, make_batch, overwrite, segments, write_segment


def read(reader, info, offset, bytes_max, *, at_least_one=True):
    result = reader.read(FOLDER, info, offset, bytes_max, at_least_one=at_least_one)
    return b"".join(result.cold() if result.cold else result.parts)


def search(reader, info, timestamp):
    found = reader.offset_for_timestamp(FOLDER, info, timestamp)
    return found() if isinstance(found, ColdRead) else found


def read_to_end(reader, info, offset, bytes_max):
    found = []
    while offset <= info.last_offset:
        data = read(reader, info, offset, bytes_max)
        assert data
        while data:
            header = read_header(data)
            found.append(data[: header.size_bytes])
            data = data[header.size_bytes :]
            offset = header.last_offset + 1
    return found


@given(segments(), st.sampled_from([1, 5000, 1 << 20]), st.data())
def test_every_read_is_what_a_scan_would_give(segment, span_bytes_max, data):
    base_offset, batches = segment
    store = ChunkStore()
    info = write_segment(store, batches, base_offset=base_offset)
    reader, naive = SegmentReader(store), Naive(batches)
    next_offset = base_offset
    for _ in range(data.draw(st.integers(1, 8))):
        store.is_cold = data.draw(st.booleans())
        edges = [edge + step for batch in batches for edge in (read_header(batch).last_offset,) for step in (0, 1)]
        offset = data.draw(st.one_of(st.just(next_offset), st.sampled_from([base_offset, base_offset - 1, *edges])))
        event("continues where a read ended" if offset == next_offset > base_offset else "begins somewhere")
        sizes = [0, 1, 61, 4096, 9000, len(batches[0]), sum(map(len, batches[:2])) - 1, sum(map(len, batches)), 1 << 20]
        bytes_max, at_least_one = data.draw(st.sampled_from(sizes)), data.draw(st.booleans())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segment_reader, "SPAN_BYTES_MAX", span_bytes_max)  # machine code has its own
            result = reader.read(FOLDER, info, offset, bytes_max, at_least_one=at_least_one)
            assert not (store.is_cold and result.parts)
            parts = result.cold() if result.cold else result.parts
        found = b"".join(parts)
        assert found == naive.read(offset, bytes_max, at_least_one=at_least_one)
        for header, _ in iterate_batches(found):
            next_offset = header.last_offset + 1


@given(segments(), st.sampled_from([100, 5000, 1 << 20]), st.booleans())
def test_a_search_by_time_ends_where_a_scan_would(segment, window_bytes, is_cold):
    base_offset, batches = segment
    store = ChunkStore()
    info = write_segment(store, batches, base_offset=base_offset)
    reader, naive = SegmentReader(store), Naive(batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_reader, "SEARCH_WINDOW_BYTES", window_bytes)
        patch.setattr(segment_reader, "SEARCH_BYTES_MAX", 2 * window_bytes)
        store.is_cold = is_cold
        for timestamp in range(-1, 32):
            assert search(reader, info, timestamp) == naive.offset_for_timestamp(timestamp)


@pytest.mark.parametrize("bytes_max", [1, 5000, 40_000])
@pytest.mark.parametrize("kind", ["directory", "memory", "chunks"])
def test_a_segment_is_read_to_its_end_from_any_store(kind, bytes_max, tmp_path):
    batches = [make_batch(n, (n,), 50 * (n % 90)) for n in range(200)]
    files = SystemFileSystem() if kind == "directory" else MemoryFileSystem()
    store = ChunkStore() if kind == "chunks" else LocalStore(files, tmp_path / "archive")
    info = write_segment(store, batches)
    reader = SegmentReader(store)
    assert read_to_end(reader, info, 0, bytes_max) == batches
    assert b"".join(batch for _, batch in reader.batches(FOLDER, info)) == b"".join(batches)


def test_windows_of_any_size_give_the_same(monkeypatch):
    batches = [make_batch(n, (n,), 50 * (n % 90)) for n in range(100)]
    store = ChunkStore()
    info = write_segment(store, batches)
    for span in (1, 3000, 50_000):
        monkeypatch.setattr(segment_reader, "SPAN_BYTES_MAX", span)
        reader = SegmentReader(store)
        for bytes_max in (1, 20_000, 1 << 20):
            assert read_to_end(reader, info, 0, bytes_max) == batches


def test_one_read_is_bounded(monkeypatch):
    batches = [make_batch(n) for n in range(100)]
    store = ChunkStore()
    info = write_segment(store, batches)
    size = len(batches[0])
    monkeypatch.setattr(segment_reader, "BYTES_PER_READ", 20 * size + 1)
    assert len(read(SegmentReader(store), info, 0, 1 << 30)) == 20 * size
    monkeypatch.setattr(segment_reader, "BATCHES_PER_READ", 7)
    assert len(read(SegmentReader(store), info, 0, 1 << 30)) == 7 * size


@pytest.mark.parametrize("find", [lambda reader, info: read(reader, info, 1, 1 << 20), lambda *it: search(*it, 2000)])
@pytest.mark.parametrize("left_bytes", [1, 60])
def test_short_bytes_after_the_last_batch_are_damage(find, left_bytes):
    """Each batch there is as a writer would have written it, and the last one is missing."""
    store = ChunkStore()
    info = write_segment(store, [make_batch(0), make_batch(1, (2000,))])
    longer = (make_batch(0, value_size=size) for size in range(100, 400))
    batch = next(it for it in longer if len(it) == info.size_bytes - left_bytes)
    overwrite(store, log_name(FOLDER, 0), batch + bytes(left_bytes))
    with pytest.raises(DamagedSegment, match=f"at byte {len(batch)}, offset 1: the batch is incomplete"):
        find(SegmentReader(store), info)


def test_bytes_after_the_counted_end_are_never_read():
    store = ChunkStore()
    batches = [make_batch(0), make_batch(1)]
    info = write_segment(store, batches)
    overwrite(store, log_name(FOLDER, 0), b"".join([*batches, make_batch(2)]))
    reader = SegmentReader(store)
    assert read(reader, info, 0, 1 << 20) == b"".join(batches)
    result = reader.read(FOLDER, info, 2, 1 << 20, at_least_one=True)
    assert (result.parts, result.cold) == ([], None)


def test_the_first_read_of_a_segment_is_cold_and_the_next_one_is_not():
    store = ChunkStore()
    info = write_segment(store, [make_batch(n, value_size=3000) for n in range(20)])
    reader = SegmentReader(store)
    first = reader.read(FOLDER, info, 3, 10_000, at_least_one=True)
    assert first.cold.size_bytes == 10_000
    assert reader.offset_for_timestamp(FOLDER, info, 1001) is None
    assert isinstance(reader.offset_for_timestamp(FOLDER, info, 1000), ColdRead)
    parts = first.cold()
    assert reader.read(FOLDER, info, 3, 10_000, at_least_one=True).parts == parts
    assert reader.offset_for_timestamp(FOLDER, info, 1000) == (1000, 0, 0)


def test_cached_batches_are_returned_at_once_without_the_rest(monkeypatch):
    """The second window is on the disk only: a read gives the first one, the next read is cold."""
    monkeypatch.setattr(segment_reader, "SPAN_BYTES_MAX", 10_000)
    batches = [make_batch(n, value_size=3000) for n in range(20)]

    class HalfCached(ChunkStore):
        def read_cached(self, name, size_bytes, position):
            return super().read_cached(name, size_bytes, position) if position + size_bytes <= 31_000 else None

    store = HalfCached()
    info = write_segment(store, batches)
    reader = SegmentReader(store)
    read(reader, info, 0, 1)
    hot = reader.read(FOLDER, info, 1, 1 << 20, at_least_one=True)
    assert hot.cold is None
    taken = b"".join(hot.parts)
    assert 0 < len(taken) <= 31_000
    assert b"".join(batches[1:]).startswith(taken)
    cold = reader.read(FOLDER, info, 1 + len(taken) // len(batches[0]), 1 << 20, at_least_one=True)
    assert cold.parts == []
    assert taken + b"".join(cold.cold()) == b"".join(batches[1:])


def test_a_cold_read_has_the_size_that_it_reads():
    store = ChunkStore()
    batches = [make_batch(number, value_size=5000) for number in range(10)]
    info = write_segment(store, batches)
    reader = SegmentReader(store)
    read(reader, info, 0, 1)  # so that its index is known
    store.is_cold = True
    size = len(batches[0])
    for offset in range(10):
        for bytes_max, count in ((1, 1), (3 * size, 3), (1 << 20, 10)):
            cold = reader.read(FOLDER, info, offset, bytes_max, at_least_one=True).cold
            expected = size * min(count, 10 - offset)
            assert expected <= cold.size_bytes <= min(expected + 2 * size, info.size_bytes - (offset - 1) * size)
            assert len(b"".join(cold())) == expected


def test_an_index_follows_its_segment_while_that_grows():
    batches = [make_batch(n, (n,), 1000) for n in range(60)]
    store, info, reader = ChunkStore(), None, None
    builder = IndexBuilder(0)
    reader = SegmentReader(store)
    earlier = []
    for number in range(0, 60, 3):
        info = append_batches(store, FOLDER, builder, batches[number : number + 3], info, is_sealed=number == 57)
        earlier.append(info)
        assert read_to_end(reader, info, max(0, number - 5), 20_000) == batches[max(0, number - 5) : number + 3]
        assert search(reader, info, number + 1) == (number + 1, number + 1, 0)
        assert search(reader, info, number + 3) is None
    for known in earlier:
        last = known.last_offset
        assert read_to_end(reader, known, 0, 1 << 20) == batches[: last + 1], "a reader of an older manifest gets less"
        assert search(reader, known, last) == (last, last, 0)
        assert not isinstance(reader.offset_for_timestamp(FOLDER, known, last), ColdRead)


def test_a_grown_index_reads_only_what_was_added_to_its_files():
    class Watched(ChunkStore):
        reads = ()

        def read(self, name, size_bytes, position):
            self.reads = (*self.reads, (name, position))
            return super().read(name, size_bytes, position)

    store, builder = Watched(), IndexBuilder(0)
    first = append_batches(store, FOLDER, builder, [make_batch(n, (n,), 5000) for n in range(10)])
    reader = SegmentReader(store)
    read(reader, first, 0, 1)
    second = append_batches(store, FOLDER, builder, [make_batch(n, (n,), 5000) for n in range(10, 12)], first)
    store.reads = ()
    read(reader, second, 11, 1)
    _, index, time_index = file_names(FOLDER, 0)
    assert [row for row in store.reads if row[0] in (index, time_index)] == [(index, 72), (time_index, 108)]


def test_indexes_are_cached_up_to_a_limit_and_reads_work_without_a_cache():
    store = ChunkStore()
    batches = [make_batch(n, (n,), 5000) for n in range(30)]
    infos = [write_segment(store, batches, folder=f"topic-{n}") for n in range(5)]
    size = OBJECT_BYTES + 29 * (8 + 12)
    for bytes_max, kept in ((0, 0), (size - 1, 0), (2 * size, 2), (1 << 20, 5)):
        reader = SegmentReader(store, index_bytes_max=bytes_max)
        for round_number in range(2):
            for number, info in enumerate(infos):
                folder = f"topic-{number}"
                result = reader.read(folder, info, 7, 1, at_least_one=True)
                assert (result.cold is None) == (kept == 5 and round_number == 1)
                assert b"".join(result.cold() if result.cold else result.parts) == batches[7]
                assert reader._indexes.size_bytes <= bytes_max
        assert len(reader._indexes) == kept


def test_a_damaged_segment_serves_only_the_batches_before_the_damage():
    """Whatever the disk says the next time."""
    store, batches = ChunkStore(), [make_batch(n) for n in range(4)]
    info = write_segment(store, batches)
    reader = SegmentReader(store)
    for third in (bytes(len(batches[2])), batches[2]):
        overwrite(store, log_name(FOLDER, 0), b"".join([*batches[:2], third, batches[3]]))
        found = reader.batches(FOLDER, info)
        assert [header.base_offset for header, _ in itertools.islice(found, 2)] == [0, 1]
        with pytest.raises(DamagedSegment, match="offset 2"):
            next(found)


def test_a_record_that_compaction_took_away_is_not_found_by_its_time():
    """The header of an emptied batch keeps its timestamp."""
    emptied = bytearray(make_batch(0, (50,)))
    from pipeline_broker.records.batch import HEADER_SIZE, with_times

    emptied = emptied[:HEADER_SIZE]
    emptied[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    header = with_times(read_header(emptied), emptied, 50)
    emptied[17:21] = header.crc.to_bytes(4, "big")
    store = ChunkStore()
    batches = [bytes(emptied), make_batch(1, (20,)), make_batch(2, (60,)), make_batch(3, (55,))]
    info = write_segment(store, batches)
    reader = SegmentReader(store)
    assert search(reader, info, 10) == (20, 1, 0)
    assert search(reader, info, 30) == (60, 2, 0)
    assert search(reader, attrs.evolve(info, max_timestamp=70), 65) is None


def test_readers_of_a_data_directory_wait_for_no_disk_on_the_callers_thread(tmp_path):
    """Whatever is not open and in the page cache is left to the work of a ColdRead."""
    files = MemoryFileSystem()
    store = LocalStore(files, Path("/archive"))
    batches = [make_batch(n, (n,), 3000) for n in range(20)]
    info = write_segment(store, batches)
    reader = SegmentReader(store)

    def refuse(operation, _path):
        raise AssertionError(operation)

    files.before, work = refuse, files.before
    result = reader.read(FOLDER, info, 0, 1 << 20, at_least_one=True)
    files.before = work
    assert b"".join(result.cold()) == b"".join(batches)
    files.before, files.is_cold = refuse, True
    assert reader.read(FOLDER, info, 0, 1 << 20, at_least_one=True).cold is not None
    assert isinstance(reader.offset_for_timestamp(FOLDER, info, 3), ColdRead)


def test_threads_read_on_while_the_segment_grows_and_is_replaced(tmp_path, caplog):
    """Every read returns whole batches of its reader's segment, or SegmentGone."""
    store = LocalStore(SystemFileSystem(), tmp_path / "archive")
    reader, builder = SegmentReader(store), IndexBuilder(0)
    batches = [make_batch(n, (n,), 700) for n in range(200)]
    known = [append_batches(store, FOLDER, builder, batches[:10])]
    stopped = threading.Event()

    def keep_reading():
        offset = reads = 0
        while not stopped.is_set() or offset:
            info = known[-1]
            try:
                data = read(reader, info, offset, 30_000)
            except SegmentGone:
                continue
            reads += 1
            found = [(header.base_offset, bytes(batch)) for header, batch in iterate_batches(data)]
            assert found
            assert all(batch == batches[base_offset] for base_offset, batch in found)
            offset = 0 if found[-1][0] == info.last_offset else found[-1][0] + 1
        return reads

    with ThreadPoolExecutor(2) as threads:
        readers = [threads.submit(keep_reading) for _ in range(2)]
        for start in range(10, 190, 10):
            known.append(append_batches(store, FOLDER, builder, batches[start : start + 10], known[-1]))
        for generation in range(1, 6):
            other = f"other-{generation}"
            compacted = [*batches[:5], *batches[5 * generation : 190]]
            info = write_segment(store, compacted, folder=other, generation=generation)
            reader.forget(FOLDER, known[-1])
            for name, source in zip(file_names(FOLDER, 0), file_names(other, 0), strict=True):
                store.write(f"{name}.cleaned", [store.read(source, 1 << 30, 0)], 0)
                store.replace(f"{name}.cleaned", name)
            known.append(info)
        stopped.set()
        assert min(thread.result() for thread in readers) > 1
    assert [record.getMessage() for record in caplog.records if "is damaged" in record.getMessage()] == []
