"""The message browser reads records, shows them safely, and stops at its bounds."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.steps import finished
from pipeline_broker.dashboard import record_reader
from pipeline_broker.dashboard.record_filter import BadFilterError, RecordFilter
from pipeline_broker.dashboard.record_reader import PageReader
from pipeline_broker.dashboard.record_view import BYTES_SHOWN_MAX, HEADERS_SHOWN_MAX, content_view, record_view
from pipeline_broker.dashboard.seeking import ends_of, positions_of
from pipeline_broker.log.read_result import ColdRead, ReadResult
from pipeline_broker.records.batch import NewRecord, build_batch, read_header, restamped
from pipeline_broker.records.control_batch import EndMarker, marker_batch
from pipeline_broker.records.record import Record, iterate_records
from pipeline_broker.web.messages import BadRequestError, HttpRequest


class FakeLog:
    """A log of batches in memory. Cold reads count the calls from threads."""

    def __init__(self, batches, *, start=0, is_cold=False):
        self.batches = []
        offset = start
        for batch in batches:
            header = read_header(batch)
            self.batches.append((offset, restamped(header, batch, offset)))
            offset += header.last_offset_delta + 1
        self.log_start_offset, self.high_watermark, self.is_cold = start, offset, is_cold

    def read(self, offset, bytes_max, *, at_least_one):
        assert at_least_one
        parts = [batch for base, batch in self.batches if read_header(batch).last_offset >= offset]
        found, size_bytes = parts[:1], len(parts[0]) if parts else 0
        for part in parts[1:]:
            size_bytes += len(part)
            if size_bytes > bytes_max:
                break
            found.append(part)
        return ReadResult(cold=ColdRead(lambda: found, size_bytes)) if self.is_cold else ReadResult(found)

    def bytes_available(self, offset):
        return sum(len(batch) for _, batch in self.batches if read_header(batch).last_offset >= offset)

    def records(self):
        return [record for _, batch in self.batches for record in iterate_records(batch)]


def record(key=None, value=None, headers=(), offset=0):
    return Record(offset, 1_000, key, value, tuple(headers), -1)


def read_all(logs, wanted, limit):
    """Read all pages, from the start of each log."""
    positions, pages = {partition: log.log_start_offset for partition, log in logs.items()}, []
    while True:
        reader = PageReader(logs, positions, wanted, limit)
        while (step := reader.next_work()) is not None:
            partition, work = step
            reader.take(partition, finished(work))
        page = reader.page
        pages.append(page)
        if page.is_at_end:
            return pages
        assert page.examined
        positions = page.positions


values = st.one_of(st.none(), st.binary(max_size=30))
batches = st.lists(
    st.builds(
        lambda records, codec: build_batch(
            [NewRecord(value, key, 1_000 + number, (("name", b"x"),)) for number, (key, value) in enumerate(records)],
            compression=codec,
        ),
        st.lists(st.tuples(values, values), min_size=1, max_size=8),
        st.sampled_from([0, 1, 3, 4]),
    ),
    max_size=8,
)


@given(
    logs=st.lists(st.tuples(batches, st.integers(0, 50), st.booleans()), min_size=1, max_size=3),
    limit=st.integers(1, 20),
    text=st.binary(max_size=1),
)
def test_page_after_page_shows_every_wanted_record_once_and_in_order(logs, limit, text):
    logs = {number: FakeLog(found, start=start, is_cold=cold) for number, (found, start, cold) in enumerate(logs)}
    pages = read_all(logs, RecordFilter(value=text), limit)
    shown = [(each["partition"], each["offset"]) for page in pages for each in page.records]

    assert all(len(page.records) <= limit for page in pages)
    for partition, log in logs.items():
        expected = [
            each.offset
            for each in log.records()
            if not text or (each.value is not None and text.lower() in each.value.lower())
        ]
        assert [offset for number, offset in shown if number == partition] == expected
    assert sum(page.examined for page in pages) == sum(len(log.records()) for log in logs.values())


def test_a_page_stops_at_the_maximum_of_examined_records(monkeypatch):
    monkeypatch.setattr(record_reader, "RECORDS_EXAMINED_MAX", 10)
    log = FakeLog([build_batch([NewRecord(b"v", None, 1)] * 7)] * 4)
    pages = read_all({0: log}, RecordFilter(value=b"nothing like it"), 5)

    assert [page.examined for page in pages] == [10, 10, 8]


def test_a_page_stops_at_the_maximum_of_shown_bytes(monkeypatch):
    monkeypatch.setattr(record_reader, "SHOWN_BYTES_MAX", 1_000)
    log = FakeLog([build_batch([NewRecord(b"\0" * 200, None, 1)] * 9)])
    pages = read_all({0: log}, RecordFilter(), 100)

    assert len(pages) > 1
    assert all(len(json.dumps(page.records)) < 1_000 + 2 * 6 * 200 for page in pages)
    assert sum(len(page.records) for page in pages) == 9


def test_an_unreadable_batch_is_skipped_and_counted(monkeypatch):
    monkeypatch.setattr(record_reader, "BATCH_BYTES_MAX", 10_000)
    bomb = build_batch([NewRecord(bytes(100_000), None, 1)], compression=1)
    log = FakeLog([bomb, build_batch([NewRecord(b"after", None, 1)])])
    (page,) = read_all({0: log}, RecordFilter(), 10)

    assert page.passed_over == 1
    assert [each["value"]["text"] for each in page.records] == ["after"]


def test_transaction_markers_are_not_shown():
    log = FakeLog(
        [marker_batch(7, 0, EndMarker(is_commit=True, coordinator_epoch=0), 1), build_batch([NewRecord(b"v", None, 1)])]
    )
    (page,) = read_all({0: log}, RecordFilter(), 10)

    assert [each["offset"] for each in page.records] == [1]


@given(
    content=st.one_of(
        st.binary(max_size=100), st.text(max_size=1_500).map(str.encode), st.binary(min_size=2_000, max_size=2_100)
    )
)
def test_content_is_text_or_hex_and_never_long(content):
    shown = content_view(content)

    assert shown["bytes"] == len(content)
    if "text" in shown:
        assert content.startswith(shown["text"].encode())
        assert shown["cut"] == (len(shown["text"].encode()) < len(content))
    else:
        with pytest.raises(UnicodeDecodeError):
            content.decode()
        assert bytes.fromhex(shown["hex"]) == content[: len(bytes.fromhex(shown["hex"]))]
    assert len(json.dumps(shown)) < 6 * BYTES_SHOWN_MAX + 100


@pytest.mark.parametrize("length", range(BYTES_SHOWN_MAX - 4, BYTES_SHOWN_MAX + 5))
def test_a_cut_within_a_character_omits_that_character(length):
    content = b"a" * (length % 4) + "🙂".encode() * 600

    shown = content_view(content)["text"]

    assert BYTES_SHOWN_MAX - 4 < len(shown.encode()) <= BYTES_SHOWN_MAX


def test_a_hostile_record_is_bounded_and_unchanged():
    shown = record_view(
        0, record(b"\xe2\x80\xaekey", b"<script>" + b"A" * 10_000_000, [("h" * 5_000, b"x" * 5_000)] * 500)
    )

    assert len(json.dumps(shown)) < 60_000
    assert shown["key"]["text"] == "\u202ekey"
    assert shown["value"]["text"].startswith("<script>")
    assert (shown["value"]["bytes"], shown["value"]["cut"]) == (10_000_008, True)
    assert (len(shown["headers"]), shown["headers_count"]) == (HEADERS_SHOWN_MAX, 500)


VALUE = json.dumps({"customer": {"name": "Ann"}, "items": [{"count": 3}], "open": True, "nothing": None}).encode()


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ({}, True),
        ({"key": "KEY"}, True),
        ({"key": "other"}, False),
        ({"value": "ann"}, True),
        ({"header": "trace"}, True),
        ({"header": "trace=b"}, True),
        ({"header": "trace=z"}, False),
        ({"header": "absent"}, False),
        ({"json": "customer.name=Ann"}, True),
        ({"json": "customer.name=An"}, False),
        ({"json": "customer"}, True),
        ({"json": "items.0.count=3"}, True),
        ({"json": "items.9.count=3"}, False),
        ({"json": "items.x"}, False),
        ({"json": "open=true"}, True),
        ({"json": "nothing=null"}, True),
        ({"json": "customer.name.first"}, False),
        ({"json": "customer.name == Ann"}, True),
        ({"json": "customer.name==Bob"}, False),
        ({"json": "customer.name != Bob"}, True),
        ({"json": "customer.name!=Ann"}, False),
        ({"json": "items.0.count>2"}, True),
        ({"json": "items.0.count > 3"}, False),
        ({"json": "items.0.count>=3"}, True),
        ({"json": "items.0.count<3.5"}, True),
        ({"json": "items.0.count<=2"}, False),
        ({"json": "customer.name>1"}, False),
        ({"json": "open>0"}, False),
        ({"key": "key", "json": "open=false"}, False),
    ],
)
def test_a_filter_matches_as_documented(query, matches):
    wanted = RecordFilter.from_query(query)

    assert wanted.matches(record(b"a key", VALUE, [("trace", b"abc"), ("null", None)])) == matches
    assert wanted.is_empty == (not query)


@pytest.mark.parametrize("value", [None, b"", b"{", b"[" * 100_000, b"\xff", b"1" * 100_000, b'"x"', b"\xef\xbb\xbf{}"])
def test_a_value_that_is_not_json_has_no_fields(value):
    assert not RecordFilter.from_query({"json": "a"}).matches(record(value=value))


@pytest.mark.parametrize(
    "query",
    [
        {"key": "x" * 513},
        {"header": "=x"},
        {"json": " =x"},
        {"json": "customer..name"},
        {"json": "total>much"},
        {"json": "a<b<c"},
    ],
)
def test_an_invalid_filter_is_refused(query):
    with pytest.raises(BadFilterError):
        RecordFilter.from_query(query)


LOGS = {
    0: SimpleNamespace(log_start_offset=5, high_watermark=50, offset_for_timestamp=lambda _: None),
    1: SimpleNamespace(
        log_start_offset=0,
        high_watermark=10,
        offset_for_timestamp=lambda time: ColdRead(lambda: SimpleNamespace(offset=time), 1),
    ),
}


def asked(query):
    return HttpRequest(method="GET", path="/", query=query, headers={})


def seek(**query):
    assert ends_of(asked(query)) is None
    found = positions_of(LOGS, asked(query))
    return {partition: offset if isinstance(offset, int) else offset() for partition, offset in found.items()}


def test_reading_backwards_starts_at_the_end_or_at_the_previous_page():
    assert ends_of(asked({})) == {}
    assert ends_of(asked({"from": "latest", "key": "x"})) == {}
    assert ends_of(asked({"before": "0:33,1:4"})) == {0: 33, 1: 4}


def test_reading_forwards_starts_at_the_log_start_an_offset_a_time_or_the_previous_page():
    assert seek(**{"from": "earliest"}) == {0: 5, 1: 0}
    assert seek(offset="30") == {0: 30, 1: 10}
    assert seek(time="7") == {0: 50, 1: 7}
    assert seek(positions="0:33") == {0: 33, 1: 0}


@pytest.mark.parametrize(
    "query", [{"offset": "-1"}, {"offset": "\u0661"}, {"time": "x"}, {"offset": "9" * 30}, {"positions": "0"},
              {"positions": "0:x"}, {"positions": "0:" + "9" * 5_000}, {"positions": "0:1," * 5_000}],
)  # fmt: skip
def test_an_invalid_start_is_refused(query):
    with pytest.raises(BadRequestError):
        seek(**query)


@pytest.mark.parametrize("before", ["0", "0:x", "0:" + "9" * 5_000, "0:1," * 5_000])
def test_an_invalid_end_is_refused(before):
    with pytest.raises(BadRequestError):
        ends_of(asked({"before": before}))
