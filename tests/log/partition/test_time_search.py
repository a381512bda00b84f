"""Search by timestamp in archive and journal, compared with a scan over the records."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.partition.time_search import SEARCHED_AT_ONCE_MAX, TimeSearch
from pipeline_broker.log.read_result import ColdRead, ReadResult
from pipeline_broker.records.batch import read_header, restamped, with_times
from tests.log.archive.segments import make_batch
from tests.log.archive.test_archived_log import made, records_of, resolved

TIMES = st.lists(st.integers(-1, 9), min_size=1, max_size=3)
ARCHIVED = st.lists(st.lists(TIMES.map(lambda times: (times, False, 0)), min_size=1, max_size=2), max_size=2)


def search_of(archived, batches, start, *, stored_from=0, is_cold=False):
    """Return a search in archived batches and in later ones, which are in memory or not."""
    index = OffsetIndex()
    for batch in batches:
        header = read_header(batch)
        index.append(header.base_offset, 0, len(batch), header.max_timestamp)

    def read_batch(number):
        parts = [batches[number][:10], batches[number][10:]]
        return ReadResult(cold=ColdRead(lambda: parts, 77)) if is_cold else ReadResult(parts)

    return TimeSearch(archived, index, start, stored_from, read_batch)


def batches_of(offset, shapes):
    found = []
    for times in shapes:
        found.append(make_batch(offset, times))
        offset += len(times)
    return found


@given(ARCHIVED | st.none(), st.lists(TIMES, max_size=4), st.booleans())
def test_the_first_record_at_or_after_a_time_is_found_wherever_the_log_starts_and_its_records_lie(
    archived_shapes, shapes, is_cold
):
    archived, stored = (None, []) if archived_shapes is None else made(archived_shapes, is_cold=is_cold)
    batches = batches_of(archived.end_offset if archived else 0, shapes)
    records = records_of(stored + batches)
    for start in range(len(records) + 1):
        search = search_of(archived, batches, start, is_cold=is_cold)
        for timestamp in range(11):
            late = (it for it in records if it.timestamp >= timestamp and it.offset >= start)
            expected = next(((it.timestamp, it.offset, 0) for it in late), None)
            assert resolved(search.offset_for_timestamp(timestamp)) == expected
        largest = max((it.timestamp for it in records), default=None)
        expected = next(((it.timestamp, it.offset, 0) for it in records if it.timestamp == largest), None)
        assert resolved(search.max_timestamp()) == expected, "also below the log start"


@given(st.lists(TIMES, max_size=4))
def test_the_largest_timestamp_is_that_of_a_batch_that_retention_has_left(shapes):
    """Retention deletes batches that the journal still has; DeleteRecords deletes none."""
    batches = batches_of(0, shapes)
    for stored_from in range(len(records_of(batches)) + 1):
        stored = records_of([batch for batch in batches if read_header(batch).base_offset >= stored_from])
        largest = max((it.timestamp for it in stored), default=None)
        expected = next(((it.timestamp, it.offset, 0) for it in stored if it.timestamp == largest), None)
        for start in (0, stored_from):
            assert resolved(search_of(None, batches, start, stored_from=stored_from).max_timestamp()) == expected


def test_timestamps_below_minus_one_are_not_the_largest():
    """Their batch says -1, as in Kafka, so that its records are not found."""
    batches = [make_batch(0, [-2]), make_batch(1, [-1])]
    below = with_times(read_header(batches[0]), batches[0], -1)
    batches[0] = restamped(below, batches[0], 0, 0)
    assert resolved(search_of(None, batches, 0).max_timestamp()) is None


def test_a_search_waits_only_for_the_disk_or_for_very_many_records():
    few, many = batches_of(0, [[5] * SEARCHED_AT_ONCE_MAX]), batches_of(0, [[5] * (SEARCHED_AT_ONCE_MAX + 1)])
    assert search_of(None, few, 0).offset_for_timestamp(5) == (5, 0, 0)
    for batches, is_cold, size_bytes in ((many, False, len(many[0])), (few, True, 77)):
        found = search_of(None, batches, 0, is_cold=is_cold).offset_for_timestamp(5)
        assert (found.size_bytes, found()) == (size_bytes, (5, 0, 0))
