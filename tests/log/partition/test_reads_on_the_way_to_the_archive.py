"""A cold read returns its batches even if they were archived before it ran."""

import pytest

from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches, read_header
from tests.archiving import archive_all
from tests.node.upkeep_bench import Bench

COUNT = 6


def bench_of(count=COUNT, **producer):
    """A log whose journal is not in the page cache."""
    bench = Bench()
    for number in range(count):
        batch = build_batch([NewRecord(bytes(300), timestamp=100 + number)], **producer)
        entry = bench.log.append(read_header(batch), batch, 0).entry
        bench.journal.sync(bench.journal.write([entry]))
        bench.logs.on_durable([entry])
    bench.files.is_cold = True
    return bench


def offsets_of(parts):
    return [header.base_offset for header, _ in iterate_batches(b"".join(parts))]


@pytest.mark.parametrize("is_cold", [True, False])
def test_it_falls_back_to_the_archive(is_cold):
    bench = bench_of()
    first, later = (bench.log.read(offset, 1 << 20, at_least_one=False) for offset in (0, 4))
    search = bench.log.offset_for_timestamp(103)
    archive_all(bench.journal, bench.logs)
    bench.files.is_cold = is_cold
    for _ in range(2):  # the second time without an index to load
        assert offsets_of(first.cold()) == list(range(COUNT))
        assert offsets_of(later.cold()) == [4, 5]
        assert search() == (103, 3, 0)
    assert isinstance(search, ColdRead)


def test_it_has_at_least_one_batch_and_at_most_the_requested_bytes():
    bench = bench_of()
    size = bench.log.index.size_of(0)
    results = [bench.log.read(1, bytes_max, at_least_one=True).cold for bytes_max in (1, 2 * size)]
    archive_all(bench.journal, bench.logs)
    assert [offsets_of(result()) for result in results] == [[1], [1, 2]]


def test_it_ends_at_the_last_stable_offset():
    bench = bench_of(2)
    batch = build_batch([NewRecord(bytes(300))], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    bench.files.is_cold = False
    for _ in range(2):
        entry = bench.log.append(read_header(batch), batch, 0).entry
        bench.journal.sync(bench.journal.write([entry]))
        bench.logs.on_durable([entry])
        batch = build_batch([NewRecord(bytes(300))])
    bench.files.is_cold = True
    result = bench.log.read(0, 1 << 20, at_least_one=True, committed=True)
    archive_all(bench.journal, bench.logs)
    assert offsets_of(result.cold()) == [0, 1]
    assert bench.log.read(2, 1 << 20, at_least_one=True, committed=True).parts == []
    assert bench.log.bytes_available(2, committed=True) == 0


def test_it_is_empty_if_the_records_were_deleted():
    bench = bench_of()
    result = bench.log.read(0, 1 << 20, at_least_one=True)
    bench.log.raise_log_start(COUNT)
    archive_all(bench.journal, bench.logs)
    assert result.cold() == []
    assert bench.log.read(COUNT, 1 << 20, at_least_one=True).parts == []
