"""The message browser reads backwards, returns every record once, and stays within its bounds."""

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from pipeline_broker.base.steps import finished
from pipeline_broker.dashboard import newest_first, record_reader
from pipeline_broker.dashboard.newest_first import NewestFirstReader
from pipeline_broker.dashboard.record_filter import RecordFilter
from pipeline_broker.records.batch import NewRecord, build_batch
from tests.dashboard.test_records import FakeLog, batches

NOTHING_LIKE_IT = RecordFilter(value=b"nothing like it")


def read_page(logs, wanted, limit, ends=()):
    reader = NewestFirstReader(logs, dict(ends), wanted, limit)
    while (step := reader.next_work()) is not None:
        partition, work = step
        reader.take(partition, finished(work))
    return reader.page


def read_back(logs, wanted, limit):
    """Read all pages, from the end of each log."""
    pages = [read_page(logs, wanted, limit)]
    while not pages[-1].is_at_end:
        pages.append(read_page(logs, wanted, limit, pages[-1].positions))
        assert pages[-1].positions != pages[-2].positions, "a page goes back"
    return pages


def numbered(count, size=1):
    """Return a log of `count` records with rising timestamps, one per batch."""
    return FakeLog([build_batch([NewRecord(b"%d" % number * size, None, 1_000 + number)]) for number in range(count)])


def values_of(pages):
    return [record["value"]["text"] for page in pages for record in page.records]


@given(
    logs=st.lists(st.tuples(batches, st.integers(0, 50), st.booleans()), min_size=1, max_size=3),
    limit=st.integers(1, 20),
    text=st.binary(max_size=1),
    reach=st.integers(1, 8),
)
def test_page_after_page_shows_every_wanted_record_once_and_each_partition_backwards(logs, limit, text, reach):
    logs = {number: FakeLog(found, start=start, is_cold=cold) for number, (found, start, cold) in enumerate(logs)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest_first, "WINDOW_OFFSETS_MIN", reach)
        patch.setattr(newest_first, "WINDOW_BYTES_MAX", 60 * reach)
        pages = read_back(logs, RecordFilter(value=text), limit)
    event(f"pages: {min(len(pages), 4)}")
    assert all(len(page.records) <= limit for page in pages)
    for partition, log in logs.items():
        expected = [
            each.offset
            for each in log.records()
            if not text or (each.value is not None and text.lower() in each.value.lower())
        ]
        shown = [sorted(each["offset"] for each in page.records if each["partition"] == partition) for page in pages]
        assert [offset for page in reversed(shown) for offset in page] == expected


def test_the_newest_of_one_partition_come_first_and_in_reverse():
    first, *_ = read_back({0: numbered(100)}, RecordFilter(), 25)
    assert values_of([first]) == [str(number) for number in range(99, 74, -1)]


def test_a_page_of_several_partitions_is_sorted_by_time():
    first, *_ = read_back({0: numbered(50), 1: numbered(3)}, RecordFilter(), 60)
    times = [record["timestamp_ms"] for record in first.records]
    assert times == sorted(times, reverse=True)
    assert {record["partition"] for record in first.records} == {0, 1}


@given(st.lists(st.lists(st.integers(1, 100), max_size=40).map(sorted), min_size=2, max_size=5), st.integers(1, 30))
def test_a_page_of_several_partitions_has_the_newest_records_of_all(times, limit):
    logs = {
        number: FakeLog([build_batch([NewRecord(b"v", None, time)]) for time in each])
        for number, each in enumerate(times)
    }
    first = read_page(logs, RecordFilter(), limit)
    shown = [int(record["timestamp_ms"]) for record in first.records]
    event(f"partitions on the page: {len({record['partition'] for record in first.records})}")
    assert shown == sorted((time for each in times for time in each), reverse=True)[:limit]


def test_the_newest_record_is_shown_first_whatever_else_its_topic_has():
    logs = {number: numbered(400) for number in range(60)} | {
        60: FakeLog([build_batch([NewRecord(b"new", None, 9_999)])])
    }
    first = read_page(logs, RecordFilter(), 25)
    assert values_of([first])[0] == "new"
    assert {int(record["timestamp_ms"]) for record in first.records[1:]} == {1_399}


def test_a_search_finds_records_far_from_the_end():
    """A search of the newest 25 records only would call the rest of the topic empty."""
    log = numbered(3000)
    pages = read_back({0: log}, RecordFilter(value=b"123"), 25)
    assert len(pages) == 1
    assert sorted(map(int, values_of(pages))) == [123, 1123, *range(1230, 1240), 2123]


def test_a_search_that_stops_returns_its_position(monkeypatch):
    monkeypatch.setattr(record_reader, "RECORDS_EXAMINED_MAX", 500)
    first, second, *_ = read_back({0: numbered(3000)}, NOTHING_LIKE_IT, 25)
    assert (first.is_at_end, first.records) == (False, [])
    assert 500 <= first.examined <= 500 + newest_first.WINDOW_OFFSETS_MAX
    assert first.positions == {0: 3000 - first.examined}
    assert second.positions[0] < first.positions[0]


def test_a_window_of_large_records_is_smaller(monkeypatch):
    monkeypatch.setattr(record_reader, "READ_BYTES_MAX", 20_000)
    monkeypatch.setattr(newest_first, "WINDOW_BYTES_MAX", 50_000)
    log = numbered(64, size=10_000)
    reader = NewestFirstReader({0: log}, {}, RecordFilter(), 2)
    read = 0
    while (step := reader.next_work()) is not None:
        partition, work = step
        chunk = finished(work)
        read += chunk.read_bytes
        reader.take(partition, chunk)
    assert [record["offset"] for record in reader.page.records] == [63, 62]
    assert read < 50_000


def test_a_log_that_loses_its_records_ends_the_page():
    log = numbered(10)
    reader = NewestFirstReader({0: log}, {}, RecordFilter(), 5)
    partition, work = reader.next_work()
    chunk = finished(work)
    log.batches, log.log_start_offset = [], log.high_watermark
    reader.take(partition, chunk)
    assert reader.next_work() is None
    assert reader.page.is_at_end
