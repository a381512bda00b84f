"""Strict parsing of numbers: ASCII digits, within a range."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.duration import iso_milliseconds
from pipeline_broker.base.numbers import INT32, INT64, decimal_number, whole_number


@given(st.integers(*INT64))
def test_whole_numbers_are_parsed(number):
    assert whole_number(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimal_numbers_are_parsed(number):
    assert decimal_number(repr(number)) == number


@given(st.text(max_size=40) | st.text("0123456789+-.eE_ \u0661\u0662", max_size=40))
def test_any_text_is_a_number_in_range_or_none(text):
    whole, decimal = whole_number(text, *INT32), decimal_number(text)
    assert whole is None or INT32[0] <= whole <= INT32[1]
    assert decimal is None or math.isfinite(decimal)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1_0", "0x1", "\u0661", "1.0", "1e3", "9" * 5000, str(2**63), str(-(2**63) - 1), "1\n", "--1"],
)
def test_other_texts_are_not_whole_numbers(text):
    assert whole_number(text) is None


@pytest.mark.parametrize(
    "text", ["", "nan", "inf", "-inf", "1e400", "-1e9999", "9" * 5000, "1e99999", "\u0661", "1_0.0", "."]
)
def test_other_texts_are_not_finite_numbers(text):
    assert decimal_number(text) is None


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.0019s", 1),
        ("PT0S", 0),
        (f"PT{2**63 // 1000}S", 9_223_372_036_854_775_000),
        ("P", None),
        ("PT", None),
        ("P1H", None),
        ("-PT1H", None),
        ("PT-1H", None),
        ("P" + "9" * 6000 + "D", None),
        ("PT" + "9" * 400 + "S", None),
        ("P" + "9" * 20 + "D", None),
        ("PT\u0661S", None),
        ("PT1.0000000001S", None),
    ],
)
def test_a_duration_is_read_by_what_it_yields(text, expected_ms):
    assert iso_milliseconds(text) == expected_ms
