"""A page of records has a bounded cost for any records and any filter."""

import contextlib
import re
import time
from types import SimpleNamespace

import pytest
import trio
from hypothesis import event, given
from hypothesis import strategies as st

from pipeline_broker.base.steps import finished
from pipeline_broker.dashboard import log_threads, record_filter, record_reader
from pipeline_broker.dashboard.record_filter import BadFilterError, RecordFilter
from pipeline_broker.dashboard.record_reader import PageReader
from pipeline_broker.records.batch import NewRecord, build_batch
from tests.dashboard.test_records import FakeLog, read_all, record


def test_a_batch_with_too_many_records_is_skipped(monkeypatch):
    monkeypatch.setattr(record_reader, "BATCH_RECORDS_MAX", 100)
    dense = build_batch([NewRecord(b"", None, 1_000) for _ in range(101)], compression=4)
    logs = {0: FakeLog([batch_of(b"before"), dense, batch_of(b"after")])}
    page = read_all(logs, RecordFilter(), 100)
    assert [shown["value"]["text"] for each in page for shown in each.records] == ["before", "after"]
    assert sum(each.passed_over for each in page) == 1


def test_a_page_stops_at_the_maximum_of_walked_records(monkeypatch):
    """A batch can only be read from its start, so skipped records cost as much as shown ones."""
    monkeypatch.setattr(record_reader, "PAGE_RECORDS_WALKED_MAX", 250)
    monkeypatch.setattr(record_reader, "READ_BYTES_MAX", 1)  # a batch in each step
    log = FakeLog([build_batch([NewRecord(b"x", None, 1_000) for _ in range(100)]) for _ in range(9)])
    pages = read_all({0: log}, RecordFilter(value=b"never"), 100)
    assert [page.examined for page in pages] == [300, 300, 300, 0][: len(pages)]


def test_a_page_stops_at_the_maximum_of_decompressed_bytes(monkeypatch):
    monkeypatch.setattr(record_reader, "PAGE_UNPACKED_BYTES_MAX", 100_000)
    bombs = [build_batch([NewRecord(bytes(60_000), None, 1_000)], compression=4) for _ in range(10)]
    assert sum(map(len, bombs)) < 10_000
    pages = read_all({0: FakeLog(bombs)}, RecordFilter(value=b"never"), 100)
    assert [page.examined for page in pages] == [2] * 5 + [0] * (len(pages) - 5)


def test_a_batch_that_is_too_large_when_decompressed_counts_as_the_maximum(monkeypatch):
    monkeypatch.setattr(record_reader, "BATCH_BYTES_MAX", 50_000)
    monkeypatch.setattr(record_reader, "PAGE_UNPACKED_BYTES_MAX", 100_000)
    bombs = [build_batch([NewRecord(bytes(60_000), None, 1_000)], compression=4) for _ in range(10)]
    reader = PageReader({0: FakeLog(bombs)}, {0: 0}, RecordFilter(), 100)
    while (step := reader.next_work()) is not None:
        reader.take(step[0], finished(step[1]))
    assert (reader.page.passed_over, reader.page.positions) == (2, {0: 2})


def test_a_step_in_a_thread_walks_over_few_records():
    log = FakeLog([build_batch([NewRecord(b"x", None, 1_000) for _ in range(1_000)])])
    _, work = PageReader({0: log}, {0: 0}, RecordFilter(), 100).next_work()
    assert sum(1 for _ in work) >= 100 // record_reader.RECORDS_PER_STEP


def test_a_short_page_does_not_wait_for_a_long_one(monkeypatch):
    """Both share a thread and take turns."""
    monkeypatch.setattr(log_threads, "TURN_SECONDS", 0)
    ended = []

    class Reader:
        def __init__(self, name, steps):
            self.page, self._left, self._steps = name, 1, steps

        def next_work(self):
            self._left -= 1
            return None if self._left < 0 else (0, self._work())

        def _work(self):
            for _ in range(self._steps):
                yield
            return "chunk"

        def take(self, partition, chunk):
            assert (partition, chunk) == (0, "chunk")
            ended.append(self.page)

    async def main():
        threads = trio.CapacityLimiter(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log_threads.read_page, Reader("long", 500), threads)
            await trio.sleep(0.01)
            nursery.start_soon(log_threads.read_page, Reader("short", 1), threads)

    monkeypatch.setattr(log_threads, "time", SimpleNamespace(perf_counter=iter(range(10**9)).__next__))
    monkeypatch.setattr(log_threads, "TURN_SECONDS", 1.5)  # so a step each
    trio.run(main)
    assert ended == ["short", "long"]


@given(st.text(alphabet=" a.=<>!\n", max_size=12))
def test_a_json_filter_follows_its_grammar(text):
    """The grammar as a regular expression, which is too slow for longer texts."""
    grammar = re.compile(r"\s*([^=<>!]*?)\s*(?:(!=|>=|<=|==?|>|<)\s*(.*?)\s*)?", re.DOTALL)
    match = grammar.fullmatch(text)
    is_field = match is not None and all(match[1].split("."))
    try:
        field = RecordFilter.from_query({"json": text}).field
    except BadFilterError as error:
        is_number_wanted = "needs a number" in str(error)
        event("refused for its field" if not is_number_wanted else "refused for its number")
        assert is_number_wanted or not is_field
        return
    assert (field is None) == (text == "")
    if field is not None:
        assert is_field
        assert field[0] == tuple(match[1].split("."))


def test_parsing_a_filter_takes_linear_time():
    began = time.thread_time()
    for _ in range(100):
        with contextlib.suppress(BadFilterError):
            RecordFilter.from_query({"json": " " * 160 + "=" + " " * 160 + "x" + " " * 160 + "\nb"})
    assert time.thread_time() - began < 1


@given(st.binary(max_size=40), st.binary(max_size=4))
def test_a_filter_matches_across_searched_pieces(content, wanted):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_filter, "SEARCHED_BYTES", 3)
        found = RecordFilter(value=wanted).matches(record(value=content))
    assert found == (wanted.lower() in content.lower())


def batch_of(value):
    return build_batch([NewRecord(value, None, 1_000)])


def test_values_too_large_for_a_json_filter_are_skipped_and_counted(monkeypatch):
    monkeypatch.setattr(record_filter, "JSON_BYTES_MAX", 10)
    log = FakeLog([batch_of(b'{"a": 1}'), batch_of(b'{"a": "longer"}')])
    (page,) = read_all({0: log}, RecordFilter.from_query({"json": "a"}), 10)
    assert ([shown["offset"] for shown in page.records], page.passed_over) == ([0], 1)
    (page,) = read_all({0: log}, RecordFilter.from_query({"value": "a"}), 10)
    assert (len(page.records), page.passed_over) == (2, 0)
