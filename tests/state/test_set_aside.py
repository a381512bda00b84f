"""Records that a startup sets aside: the first are logged, all are counted, their content is not logged."""

from __future__ import annotations

import logging

from pipeline_broker.state.set_aside import LINES_MAX, SetAside, SetAsideRecord, reason_line


def left_out(count):
    aside = SetAside()
    for number in range(count):
        aside.add("t", 3, number, ValueError(f"wrong {number}"))
    return aside


def test_the_first_records_are_logged_and_all_are_counted(caplog):
    aside = left_out(LINES_MAX + 2)
    assert aside.count == LINES_MAX + 2
    assert aside.records == [SetAsideRecord("t", 3, number, f"wrong {number}") for number in range(LINES_MAX)]
    aside.end()
    assert len(caplog.records) == LINES_MAX + 1
    assert "2 more records are set aside" in caplog.records[-1].message


def test_no_summary_is_logged_if_all_records_were_named(caplog):
    with caplog.at_level(logging.WARNING):
        left_out(LINES_MAX).end()
    assert len(caplog.records) == LINES_MAX


def test_beyond_the_limit_any_topic_may_have_records_set_aside():
    assert not SetAside().has_any_of("t")
    named = left_out(LINES_MAX)
    assert (named.has_any_of("t"), named.has_any_of("other")) == (True, False)
    assert left_out(LINES_MAX + 1).has_any_of("other")


def test_a_reason_is_one_printable_line_of_bounded_length():
    assert reason_line(ValueError("grüße")) == "grüße"
    assert reason_line(ValueError("one\ntwo\x1b[0m")) == "'one\\ntwo\\x1b[0m'"
    assert reason_line(ValueError("x" * 5_000)) == "x" * 200
