"""A page of records costs a bounded amount, whatever producers wrote and whatever its filter is."""

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


def test_a_batch_of_very_many_records_is_passed_over_and_others_are_shown(monkeypatch):
    monkeypatch.setattr(record_reader, "BATCH_RECORDS_MAX", 100)
    dense = build_batch([NewRecord(b"", None, 1_000) for _ in range(101)], compression=4)
    logs = {0: FakeLog([batch_of(b"before"), dense, batch_of(b"after")])}
    page = read_all(logs, RecordFilter(), 100)
    assert [shown["value"]["text"] for each in page for shown in each.records] == ["before", "after"]
    assert sum(each.passed_over for each in page) == 1


def test_a_page_stops_at_the_bound_of_records_that_it_walks_over(monkeypatch):
    """Skipped records cost as much as shown ones: a batch can only be read from its start."""
    monkeypatch.setattr(record_reader, "PAGE_RECORDS_WALKED_MAX", 250)
    monkeypatch.setattr(record_reader, "READ_BYTES_MAX", 1)  # a batch in each step
    log = FakeLog([build_batch([NewRecord(b"x", None, 1_000) for _ in range(100)]) for _ in range(9)])
    pages = read_all({0: log}, RecordFilter(value=b"never"), 100)
    assert [page.examined for page in pages] == [300, 300, 300, 0][: len(pages)]


def test_a_page_stops_at_the_bound_of_bytes_that_it_decompresses(monkeypatch):
    monkeypatch.setattr(record_reader, "PAGE_UNPACKED_BYTES_MAX", 100_000)
    bombs = [build_batch([NewRecord(bytes(60_000), None, 1_000)], compression=4) for _ in range(10)]
    assert sum(map(len, bombs)) < 10_000
    pages = read_all({0: FakeLog(bombs)}, RecordFilter(value=b"never"), 100)
    assert [page.examined for page in pages] == [2] * 5 + [0] * (len(pages) - 5)


def test_a_batch_that_is_too_large_once_decompressed_counts_as_so_many_bytes(monkeypatch):
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
    """One thread reads for both, and each has it for a turn."""
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
def test_a_filter_of_json_is_read_as_its_grammar_says(text):
    """Its grammar as a regular expression, which takes forever for texts that are longer."""
    grammar = re.compile(r"\s*([^=<>!]*?)\s*(?:(!=|>=|<=|==?|>|<)\s*(.*?)\s*)?", re.DOTALL)
    match = grammar.fullmatch(text)
    is_field = match is not None and all(match[1].split("."))
    try:
        field = RecordFilter.from_query({"json": text}).field
    except BadFilterError as error:
        is_number_wanted = "compares numbers" in str(error)
        event("refused for its field" if not is_number_wanted else "refused for its number")
        assert is_number_wanted or not is_field
        return
    assert (field is None) == (text == "")
    if field is not None:
        assert is_field
        assert field[0] == tuple(match[1].split("."))


def test_the_time_of_a_filter_grows_with_its_length_only():
    began = time.thread_time()
    for _ in range(100):
        with contextlib.suppress(BadFilterError):
            RecordFilter.from_query({"json": " " * 160 + "=" + " " * 160 + "x" + " " * 160 + "\nb"})
    assert time.thread_time() - began < 1


@given(st.binary(max_size=40), st.binary(max_size=4))
def test_what_a_filter_looks_for_is_found_across_the_pieces_that_are_searched(content, wanted):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_filter, "SEARCHED_BYTES", 3)
        found = RecordFilter(value=wanted).matches(record(value=content))
    assert found == (wanted.lower() in content.lower())


def batch_of(value):
    return build_batch([NewRecord(value, None, 1_000)])


def test_values_that_are_too_large_for_a_filter_of_json_are_passed_over_and_counted(monkeypatch):
    monkeypatch.setattr(record_filter, "JSON_BYTES_MAX", 10)
    log = FakeLog([batch_of(b'{"a": 1}'), batch_of(b'{"a": "longer"}')])
    (page,) = read_all({0: log}, RecordFilter.from_query({"json": "a"}), 10)
    assert ([shown["offset"] for shown in page.records], page.passed_over) == ([0], 1)
    (page,) = read_all({0: log}, RecordFilter.from_query({"value": "a"}), 10)
    assert (len(page.records), page.passed_over) == (2, 0)
