"""The archived part of a log over all of its segments, compared with a scan over its records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive import archived_log
from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.archive.manifest import PartitionManifest
from pipeline_broker.log.archive.segment_file import transaction_index_name
from pipeline_broker.log.archive.segment_reader import SegmentReader
from pipeline_broker.log.archive.transaction_index import TransactionIndex
from pipeline_broker.log.compaction.rebuild import empty_batch
from pipeline_broker.log.producers.aborted_transactions import AbortedTransaction
from pipeline_broker.log.read_result import ColdRead
from pipeline_broker.records.batch import iterate_batches, read_header
from pipeline_broker.records.record import iterate_records
from tests.drawn import drawn, measured
from tests.log.archive.chunk_store import ChunkStore
from tests.log.archive.segments import FOLDER, make_batch, write_segment

TIMES = st.lists(st.integers(0, 9), min_size=1, max_size=3)
SEGMENTS = st.lists(st.tuples(TIMES, st.booleans(), st.integers(0, 2)), min_size=1, max_size=4)
EMPTIED = st.tuples(TIMES, st.just(True), st.just(0)).map(lambda batch: [batch])
KEPT = st.tuples(TIMES, st.just(False), st.just(0)).map(lambda batch: [batch])
BEYOND = st.builds(lambda first, last, rest: [first, last, *rest], EMPTIED, KEPT, st.lists(SEGMENTS, max_size=2))
SHAPES = st.lists(SEGMENTS, max_size=4) | BEYOND
"""Of each batch of each segment: its times, whether compaction has emptied it, the offsets that are gone in front."""


def made(shapes, *, is_cold=False):
    """The log, and its batches."""
    store, infos, batches, offset = ChunkStore(), [], [], 0
    for shape in shapes:
        segment = []
        for times, is_empty, gap in shape:
            batch = make_batch(offset + gap, times)
            segment.append(empty_batch(read_header(batch))[1] if is_empty else batch)
            offset += gap + len(times)
        infos.append(write_segment(store, segment))
        batches += segment
    store.is_cold = is_cold
    manifest = PartitionManifest(FOLDER, end_offset=offset, segments=tuple(infos))
    return ArchivedLog(SegmentReader(store), manifest), batches


def resolved(found):
    return found() if isinstance(found, ColdRead) else found


def records_of(batches):
    return [record for header, batch in iterate_batches(b"".join(batches)) for record in iterate_records(batch, header)]


@measured(beyond_an_emptied_batch=0.2)
@given(SHAPES, st.booleans())
def test_a_search_by_time_finds_the_first_record_of_all_segments(shapes, is_cold):
    """Also where the batch that makes a segment reach the time has no record any more."""
    log, batches = made(shapes, is_cold=is_cold)
    records, is_beyond = records_of(batches), False
    for start in range(log.end_offset + 1):
        for timestamp in range(11):
            late = (it for it in records if it.timestamp >= timestamp and it.offset >= start)
            expected = next(((it.timestamp, it.offset, 0) for it in late), None)
            assert resolved(log.offset_for_timestamp(timestamp, start)) == expected
            reaching = next((it for it in log.manifest.segments if it.max_timestamp >= timestamp), None)
            is_beyond |= not start and expected is not None and reaching.last_offset < expected[1]
    drawn("beyond_an_emptied_batch", is_beyond)
    assert log.max_timestamp == max((read_header(it).max_timestamp for it in batches), default=-1)


def test_a_search_waits_for_nothing_but_the_disk_unless_the_log_starts_within_a_segment():
    log, _ = made([[([1], False, 0)], [([5], False, 0), ([7], False, 0)]])
    assert resolved(log.offset_for_timestamp(6, 1)) == (7, 2, 0)
    assert log.offset_for_timestamp(6, 1) == log.offset_for_timestamp(6, 0) == (7, 2, 0)
    found = log.offset_for_timestamp(6, 2)
    assert (found(), found.size_bytes) == ((7, 2, 0), log.manifest.segments[1].size_bytes)


def test_a_search_reads_no_segment_that_does_not_reach_the_time(monkeypatch):
    """Not even the one that the log starts within."""
    log, _ = made([[([9], False, 0)], [([1], False, 0), ([2], False, 0)], [([7], False, 0)]])
    monkeypatch.setattr(SegmentReader, "batches", lambda *_: pytest.fail("read from its beginning"))
    assert resolved(log.offset_for_timestamp(5, 2)) == (7, 3, 0)


def test_a_search_continues_after_a_segment_without_a_match(monkeypatch):
    log, _ = made([[([9], True, 0), ([1, 2], False, 0)], [([7], False, 0)]])
    monkeypatch.setattr(SegmentReader, "batches", lambda *_: pytest.fail("read from its beginning"))
    assert resolved(log.offset_for_timestamp(5, 0)) == (7, 3, 0)


def test_a_search_from_within_a_segment_looks_at_the_records_of_batches_that_may_have_the_one(monkeypatch):
    log, _ = made([[([9], False, 0), ([1], False, 0), ([7], False, 0), ([8], False, 0)]])
    looked = []

    def noted(batch, header):
        looked.append(header.base_offset)
        return iterate_records(batch, header)

    monkeypatch.setattr(archived_log, "iterate_records", noted)
    assert resolved(log.offset_for_timestamp(5, 1)) == (7, 2, 0)
    assert looked == [2]


@given(SHAPES, st.booleans())
def test_a_read_begins_with_the_first_batch_that_ends_at_or_after_the_offset(shapes, is_cold):
    log, batches = made(shapes, is_cold=is_cold)
    for offset in range(log.end_offset + 2):
        rest = [batch for batch in batches if read_header(batch).last_offset >= offset]
        result = log.read(offset, 1 << 20, at_least_one=False)
        assert (result is None) == (not rest)
        if result is not None:
            found = b"".join(result.cold() if result.cold else result.parts)
            assert found
            assert b"".join(rest).startswith(found)
    assert log.size_bytes == sum(map(len, batches))


def test_of_the_segment_that_a_reader_begins_in_its_share_by_offsets_is_counted():
    """All of it counts before its first offset, and nothing of it in a gap after its last one."""
    log, _ = made([[([1], False, 0)] * 4, [([1], False, 6)] + [([1], False, 0)] * 4])
    first, second = (segment.size_bytes for segment in log.manifest.segments)
    assert [log.bytes_from(offset) - second for offset in range(4)] == [first * left // 4 for left in (4, 3, 2, 1)]
    assert [log.bytes_from(offset) for offset in (4, 9, 10)] == [second] * 3
    assert [log.bytes_from(offset) for offset in (11, 14, 15)] == [second * 4 // 5, second // 5, 0]


def test_sparse_offsets_still_count_as_readable_bytes():
    log, _ = made([[([1], False, 0), ([1], False, 1_000)]])
    assert log.bytes_from(1_001) == 1


def with_aborted(store, offset, *transactions):
    segment, index = write_segment(store, [make_batch(offset, [1] * 10)]), TransactionIndex()
    for each in transactions:
        index.add(each)
    index.write(store, transaction_index_name(FOLDER, offset))
    return index.noted(segment)


def test_aborted_transactions_concern_readers_of_offsets_between_theirs():
    store = ChunkStore()
    first = with_aborted(store, 0, AbortedTransaction(7, 2, 5, 4))
    second = with_aborted(store, 10, AbortedTransaction(8, 4, 12, 13), AbortedTransaction(9, 14, 17, 18))
    third = write_segment(store, [make_batch(20)])
    manifest = PartitionManifest(FOLDER, end_offset=21, segments=(first, second, third))
    log = ArchivedLog(SegmentReader(store), manifest)
    for offset, end_offset, expected in (
        (0, 2, []),
        (0, 3, [7]),
        (0, 4, [7]),
        (0, 5, [7, 8]),
        (5, 6, [7, 8]),
        (6, 14, [8]),
        (6, 15, [8, 9]),
        (12, 14, [8]),
        (13, 14, []),
        (17, 18, [9]),
        (18, 20, []),
    ):
        found = log.aborted_transactions(offset, end_offset)
        assert [it.producer_id for it in found()] == expected
    assert log.aborted_transactions(9, 21).size_bytes == first.aborted_bytes + second.aborted_bytes
    assert log.aborted_transactions(10, 21).size_bytes == second.aborted_bytes
    assert log.aborted_transactions(20, 21) is None


@pytest.mark.parametrize("is_cold", [False, True])
def test_an_archive_of_nothing_has_nothing_to_find(is_cold):
    log, _ = made([], is_cold=is_cold)
    assert (log.size_bytes, log.max_timestamp, log.bytes_from(0)) == (0, -1, 0)
    assert log.read(0, 100, at_least_one=True) is None
    assert log.offset_for_timestamp(0, 0) is None
