"""The moving average is plain for its first minute, then old values fade."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.telemetry.moving_average import WINDOW_NS, MovingAverage

SECOND_NS = 1_000_000_000


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(1, 2 * SECOND_NS)), min_size=1, max_size=20))
def test_in_the_first_minute_it_is_the_average_over_time(values):
    average = MovingAverage(1.0)
    for value, lasted_ns in values:
        average.add(value, lasted_ns)

    whole = sum(lasted_ns for _, lasted_ns in values)
    assert average.value == pytest.approx(sum(value * lasted_ns for value, lasted_ns in values) / whole, abs=1e-9)


def test_after_a_window_a_change_shows_by_63_percent():
    average = MovingAverage(0.0)
    for _ in range(600):
        average.add(1.0, SECOND_NS)
    for _ in range(WINDOW_NS // SECOND_NS):
        average.add(0.0, SECOND_NS)

    assert average.value == pytest.approx(math.exp(-1))
