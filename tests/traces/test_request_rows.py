"""The row of a request equals its attributes, column by column."""

from types import SimpleNamespace

import pytest

from pipeline_broker.traces.broker_tables import REQUEST_COLUMNS, REQUESTS, Outcome, TracedRequest
from pipeline_broker.traces.request_rows import RequestRows, dropped_values, ended_values
from pipeline_broker.traces.row_ring import RowRing
from stages.request import NO_OP, NO_QUEUE, NOT_SET, Close, Request, Send
from stages.timeline import NO_STAMP, STAMPS
from tests.traces.looking_layout import LookingLayout


def answered(result=None):
    request = Request(SimpleNamespace(index=3), 5, bytes(35), 0)
    request.api, request.version, request.correlation_id, request.acks = 0, 9, 7, -1
    request.queue, request.depth, request.commit, request.response_bytes = 2, 1, 11, 99
    for number, stamp in enumerate(STAMPS, 1):
        setattr(request, stamp, number)
    request.result = result or Send(b"x")
    return request


def test_the_columns_of_a_request_are_its_attributes():
    assert dict(zip(REQUEST_COLUMNS, ended_values(answered()), strict=True)) == {
        "connection": 3,
        "sequence": 5,
        "api": 0,
        "version": 9,
        "correlation_id": 7,
        "queue": 2,
        "depth": 1,
        "request_bytes": 35,
        "response_bytes": 99,
        "acks": -1,
        "commit": 11,
        "outcome": 0,
        **{stamp: number for number, stamp in enumerate(STAMPS, 1)},
    }


@pytest.mark.parametrize(
    ("result", "outcome"), [(Send(b"x"), Outcome.SEND), (NO_OP, Outcome.NOOP), (Close("why"), Outcome.CLOSE)]
)
def test_the_outcome_is_that_of_the_result(result, outcome):
    assert TracedRequest(ended_values(answered(result))).outcome == outcome


def test_missing_values_of_a_request_are_null_in_its_row():
    """The defaults of a request are the nulls of its columns, so that packing it changes nothing."""
    request = Request(SimpleNamespace(index=3), 4, b"frame", 1000)
    ring = RowRing(REQUESTS.layout, 1)
    RequestRows(ring).request_dropped(request)
    (values,) = REQUESTS.layout.iter_unpack(ring.take())
    nulls = dict(zip(REQUEST_COLUMNS, REQUESTS.nulls, strict=True))
    assert {nulls["api"], nulls["queue"], nulls["commit"]} == {NOT_SET, NO_QUEUE, NO_STAMP}
    missing = {name for name, value in zip(REQUEST_COLUMNS, values, strict=True) if value == nulls[name]}
    assert missing == {"api", "version", "acks", "queue", "commit", *STAMPS[1:]}
    assert values == dropped_values(request)


def test_a_row_for_a_full_ring_is_dropped_and_counted():
    ring = RowRing(REQUESTS.layout, 1)
    rows = RequestRows(ring)
    rows.request_ended(answered())
    rows.request_ended(answered())
    rows.request_dropped(answered())
    assert ring.dropped == 2
    assert ring.take() == REQUESTS.layout.pack(*ended_values(answered()))


def test_a_traced_request_has_0_for_a_missing_stamp():
    request = answered()
    request.submitted_ns = request.durable_ns = NO_STAMP
    row = TracedRequest(ended_values(request))
    assert (row.submitted_ns, row.durable_ns, row.sent_ns, row.connection) == (0, 0, len(STAMPS), 3)


def test_a_request_is_packed_before_its_row_can_be_taken():
    layout = LookingLayout(REQUESTS.layout.format)
    ring = layout.ring = RowRing(layout, 2)
    rows = RequestRows(ring)
    rows.request_ended(answered())
    rows.request_ended(answered())
    assert layout.seen == [0, 1]
