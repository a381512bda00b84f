"""A reader of timeline records decodes the rows that the broker packed."""

import json
import re
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.telemetry.timeline_records import RECORDS_MAX, ROWS_MAX, TimelineBatches, TimelineRows
from pipeline_broker.telemetry.timelines_topic import TIMELINES_TOPIC
from pipeline_broker.traces.broker_tables import REQUESTS
from stages.request import NO_OP

DOCUMENT = (Path(__file__).parents[2] / "docs/reference/trace-format.md").read_text(encoding="utf-8")
FETCH, PRODUCE = 1, 0
TOPIC_ID = b"t" * 16
NAMES = [name for name, _ in REQUESTS.columns]
SIZES = {"i1": 8, "i2": 16, "i4": 32, "i8": 64}
AFTER_MAX = 10**12


@attrs.frozen
class Topic:
    topic: str
    topic_id: bytes = bytes(16)


@attrs.frozen
class FetchAnswer:
    responses: list


def rows_of():
    return TimelineRows(lambda: TOPIC_ID)


def records_of(batches):
    """The objects in the records of batches."""
    return [
        json.loads(bytes(record.value))
        for batch in batches
        for header, view in iterate_batches(batch)
        for record in iterate_records(view, header)
    ]


def encoded(rows, lost=0):
    return records_of(TimelineBatches("s", "pipelined", 5).encode(rows.ring.take(), lost, 1))


def read_back(record):
    """The rows of a record as a reader of docs/reference/trace-format.md makes them: absolute stamps by their own
    names.
    """
    names = [name.removesuffix("_ns") + "_after_ns" if name.endswith("_ns") else name for name in NAMES]
    names[NAMES.index("received_ns")] = "received_ns"
    columns = []
    for name in names:
        column = record[name]
        if name.endswith("_after_ns"):
            column = [
                None if after is None else began + after
                for began, after in zip(record["received_ns"], column, strict=True)
            ]
        columns.append(column)
    return list(zip(*columns, strict=True))


@st.composite
def packed_rows(draw):
    received = draw(st.integers(1, 2**60))
    values = []
    for name, kind in REQUESTS.columns:
        if name == "outcome":
            values.append(draw(st.integers(0, 3)))
        elif name == "received_ns":
            values.append(received)
        elif name.endswith("_ns"):
            values.append(draw(st.one_of(st.none(), st.integers(0, AFTER_MAX).map(lambda after: received + after))))
        else:
            bound = 2 ** (SIZES[kind] - 1)
            values.append(draw(st.one_of(st.none(), st.integers(1 - bound, bound - 1))))
    return values


@given(rows=st.lists(packed_rows(), min_size=1, max_size=5), is_full=st.booleans())
def test_a_reader_gets_the_rows_back_with_nulls_and_words(rows, is_full):
    rows = (rows * ROWS_MAX)[:ROWS_MAX] if is_full else rows
    nulls = [-(2 ** (SIZES[kind] - 1)) for _, kind in REQUESTS.columns]
    packed = [
        REQUESTS.layout.pack(*(null if value is None else value for value, null in zip(row, nulls, strict=True)))
        for row in rows
    ]
    (record,) = records_of(TimelineBatches("s", "classic", 5).encode(b"".join(packed), 0, 1))

    outcome = NAMES.index("outcome")
    wanted = [tuple(REQUESTS.enums["outcome"][v] if at == outcome else v for at, v in enumerate(row)) for row in rows]
    assert read_back(record) == wanted


def test_a_record_names_its_session_and_its_rows(answered):
    rows, batches = rows_of(), TimelineBatches("0af3", "pipelined", 77)
    rows.request_ended(answered())
    rows.request_ended(answered(sequence=1))
    (first,) = records_of(batches.encode(rows.ring.take(), 0, 1))
    rows.request_ended(answered(sequence=2))
    (second,) = records_of(batches.encode(rows.ring.take(), 4, 1))

    head = {"schema": 2, "session": "0af3", "mode": "pipelined", "clock_offset_ns": 77}
    assert {name: first[name] for name in head} == head
    assert [(record["first_row"], record["rows"], record["lost"]) for record in (first, second)] == [
        (0, 2, 0),
        (2, 1, 4),
    ]
    assert first["sequence"] + second["sequence"] == [0, 1, 2]


def test_the_document_names_everything_in_a_record_and_nothing_else(answered):
    rows = rows_of()
    rows.request_ended(answered())
    (record,) = encoded(rows)
    section = DOCUMENT.split("## Records of the topic")[1].split("\n## ")[0]
    names = [
        name for line in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)
    ]
    assert names == list(record)


def test_many_rows_are_records_and_batches_of_bounded_size_without_a_gap(answered):
    rows, count = rows_of(), ROWS_MAX * (RECORDS_MAX + 1) + 1
    for sequence in range(count):
        rows.request_ended(answered(sequence=sequence))
    batches = TimelineBatches("s", "pipelined", 0).encode(rows.ring.take(), 0, 1)
    records = records_of(batches)

    assert len(batches) == 2
    assert [record["rows"] for record in records] == [ROWS_MAX] * (RECORDS_MAX + 1) + [1]
    assert [record["first_row"] for record in records] == list(range(0, count, ROWS_MAX))
    assert [sequence for record in records for sequence in record["sequence"]] == list(range(count))


def test_each_record_has_the_number_of_rows_lost_so_far(answered):
    """A reader may begin with any of them."""
    rows = rows_of()
    for sequence in range(ROWS_MAX + 1):
        rows.request_ended(answered(sequence=sequence))
    records = records_of(TimelineBatches("s", "pipelined", 0).encode(rows.ring.take(), 4, 1))
    assert [record["lost"] for record in records] == [4, 4]


def test_rows_beyond_the_bound_are_counted_and_earlier_ones_stay(answered):
    rows = TimelineRows(lambda: TOPIC_ID, rows_max=3)
    for sequence in range(5):
        rows.request_ended(answered(sequence=sequence))
    assert rows.lost == 2
    assert encoded(rows)[0]["sequence"] == [0, 1, 2]


def test_a_request_that_arrived_before_timelines_were_switched_on_has_none(answered):
    rows = rows_of()
    early = answered()
    early.enqueued_ns = 0  # like a stamp that `stages` did not set
    rows.request_ended(early)
    assert len(rows.ring) == 0


def test_a_dropped_request_has_the_stages_that_it_reached(answered):
    rows = rows_of()
    request = answered(committed=False)
    request.handled_ns = request.decided_ns = request.completed_ns = request.released_ns = 0
    request.send_started_ns = request.sent_ns = 0
    rows.request_dropped(request)
    (record,) = encoded(rows)
    assert record["outcome"] == ["dropped"]
    assert record["dequeued_after_ns"] != [None]
    assert record["handled_after_ns"] == record["durable_after_ns"] == record["sent_after_ns"] == [None]


@pytest.mark.parametrize(
    ("topics", "kept"),
    [
        ([Topic(TIMELINES_TOPIC)], 0),
        ([Topic("", TOPIC_ID)], 0),
        ([Topic(TIMELINES_TOPIC), Topic("orders")], 1),
        ([Topic("orders")], 1),
        ([], 1),
    ],
)
def test_reading_the_timelines_creates_no_further_ones(answered, topics, kept):
    rows = rows_of()
    request = answered(api=FETCH, committed=False)
    request.answer = FetchAnswer(topics)
    rows.request_ended(request)
    assert len(rows.ring) == kept


def test_an_answer_without_bytes_and_one_of_another_api_are_kept(answered):
    rows = rows_of()
    rows.request_ended(answered(api=PRODUCE, result=NO_OP))
    failed = answered(api=FETCH, committed=False)
    failed.answer = None
    rows.request_ended(failed)
    (record,) = encoded(rows)
    assert record["outcome"] == ["noop", "send"]
