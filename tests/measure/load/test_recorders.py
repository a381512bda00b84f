"""Recorders of requests: rows for an experiment, or histograms in bounded memory."""

import random

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.load.recorders import FORGET_FROM, HistogramRecorder, RowRecorder
from pipeline_broker.measure.load.requests import PRODUCE, READ


def test_rows_are_in_order_of_receipt_and_mark_the_warm_up():
    recorder = RowRecorder(is_open=True)
    recorder.measured_from_ns = 50
    recorder.sent([10, 60], 65)
    assert recorder.answered([1, 0], [7, 0], 100) == 35
    assert [tuple(row) for row in recorder.rows(3)] == [
        (3, 0, 1, 60, 65, 100, 7, True),
        (3, 1, 0, 10, 65, 100, 0, False),
    ]


def test_rows_without_an_answer_come_last_and_are_numbered_too():
    recorder = RowRecorder(is_open=True)
    recorder.sent([10, 20, 30], 35)
    recorder.answered([1], [0], 50)
    assert [tuple(row) for row in recorder.rows(0)] == [
        (0, 0, 1, 20, 35, 50, 0, True),
        (0, 1, 0, 10, 35, None, 0, True),
        (0, 2, 2, 30, 35, None, 0, True),
    ]


def test_rows_of_a_closed_loop_have_no_intended_time():
    recorder = RowRecorder(is_open=False)
    recorder.sent([5], 5)
    recorder.answered([0], [0], 9)
    assert [row.intended_ns for row in recorder.rows(0)] == [None]


def recorder_from(start_ns=0, kinds=(PRODUCE,)):
    recorder = HistogramRecorder(kinds)
    recorder.measured_from_ns = start_ns
    return recorder


def test_latency_counts_from_the_intended_time():
    recorder = recorder_from(1_000)
    recorder.sent([500, 2_000, 4_000], 9_000)
    assert recorder.answered([0, 1, 2], [3, 0, 6], 12_000) == 3_000, "since it was sent"
    assert dict(recorder.histograms[PRODUCE].counts()) == {10: 1, 8: 1}, "us; the first is warm-up"
    assert dict(recorder.errors) == {6: 1}, "also for errors"
    assert (recorder.requests, recorder.order_violations) == (2, 0)
    assert (recorder.first_sent_ns, recorder.last_sent_ns, recorder.last_answered_ns) == (9_000, 9_000, 12_000)


def test_kinds_are_counted_separately():
    recorder = recorder_from(kinds=(PRODUCE, READ))
    recorder.sent([0] * 4, 0)
    recorder.answered([0, 1, 2, 3], [0] * 4, 5_000)
    assert {kind: it.total for kind, it in recorder.histograms.items()} == {PRODUCE: 2, READ: 2}


def test_answers_are_counted_by_second():
    recorder = recorder_from(10)
    recorder.sent([10] * 3, 10)
    recorder.answered([0], [0], 10 + 999_999_999)
    recorder.answered([1, 2], [0, 0], 10 + 1_000_000_000)
    assert dict(recorder.answered_in_second) == {0: 1, 1: 2}


@given(st.permutations(range(12)))
def test_an_answer_after_that_of_a_later_request_is_an_order_violation(order):
    recorder = recorder_from()
    recorder.sent([0] * 12, 0)
    highest, expected = -1, 0
    for it in order:
        expected += it < highest
        highest = max(highest, it)
    for start in range(0, 12, 3):
        recorder.answered(order[start : start + 3], [0] * 3, 1_000)
    assert recorder.order_violations == expected
    assert recorder.histograms[PRODUCE].total == 12


def test_memory_does_not_grow_with_the_run():
    """Answers swap their order within a window, too."""
    recorder, randomness, sent = recorder_from(), random.Random(3), 0
    while sent < 4 * FORGET_FROM:
        ids = list(range(sent, sent + 1_000))
        recorder.sent([sent] * 1_000, sent)
        randomness.shuffle(ids)
        assert recorder.answered(ids, [0] * 1_000, sent + 7_000) == 7_000
        sent += 1_000
        assert len(recorder._sent_ns) <= FORGET_FROM + 1_000
    assert dict(recorder.histograms[PRODUCE].counts()) == {7: sent}
