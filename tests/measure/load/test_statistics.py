"""Figures agree with brute force; percentiles without enough samples are not given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.load.statistics import figures, order_violations, percentile_ns
from pipeline_broker.traces.client_rows import ClientRow

stamps = st.integers(0, 2**40)


@given(st.lists(stamps, min_size=1, max_size=3000).map(sorted), st.sampled_from([0.5, 0.99, 0.999]))
def test_a_percentile_is_the_interpolated_order_statistic_or_none(ordered, quantile):
    found = percentile_ns(ordered, quantile)
    thousandths = round(quantile * 1000)
    if len(ordered) * (1000 - thousandths) < 10 * 1000:
        assert found is None
        return
    place, part = divmod(thousandths * (len(ordered) - 1), 1000)
    low, high = ordered[place], ordered[min(place + 1, len(ordered) - 1)]
    assert found == pytest.approx(low + (high - low) * part / 1000, rel=1e-9, abs=1e-3)


@pytest.mark.parametrize(("samples", "given"), [(19, False), (20, True), (999, True), (1000, True)])
def test_ten_samples_must_lie_beyond_the_median(samples, given):
    assert (percentile_ns(range(samples), 0.5) is not None) is given


@pytest.mark.parametrize(("samples", "given"), [(999, False), (1000, True)])
def test_ten_samples_must_lie_beyond_the_99th(samples, given):
    assert (percentile_ns(range(samples), 0.99) is not None) is given


def rows_in_order_of_receipt(ids, connection=0):
    return [ClientRow(connection, index, number, None, 0, 1, 0, True) for index, number in enumerate(ids)]


@given(st.integers(0, 40))
def test_answers_in_order_are_no_violation(count):
    assert order_violations(rows_in_order_of_receipt(range(count))) == 0


@given(st.integers(2, 40), st.data())
def test_one_exchanged_pair_is_one_violation(count, draw):
    place = draw.draw(st.integers(0, count - 2))
    ids = list(range(count))
    ids[place], ids[place + 1] = ids[place + 1], ids[place]
    assert order_violations(rows_in_order_of_receipt(ids) + rows_in_order_of_receipt(range(5), connection=1)) == 1


@given(st.integers(3, 40), st.data())
def test_an_answer_left_out_or_repeated_is_a_violation(count, draw):
    place = draw.draw(st.integers(1, count - 2))
    ids = list(range(count))
    assert order_violations(rows_in_order_of_receipt(ids[:place] + ids[place + 1 :])) == 1
    assert order_violations(rows_in_order_of_receipt([*ids[:place], ids[place - 1], *ids[place:]])) == 1


def test_rows_without_correlation_ids_cannot_be_out_of_order():
    assert order_violations(rows_in_order_of_receipt([None, None])) == 0


def test_rates_and_latencies_count_measured_rows_only():
    rows = [
        ClientRow(0, 0, 0, None, 0, 10, 0, False),
        ClientRow(0, 1, 1, None, 1_000, 501_000, 0, True),
        ClientRow(0, 2, 2, 500, 2_000, 1_001_000, 3, True),
    ]
    found = figures(rows)
    assert (found.requests, found.errors) == (2, 1)
    assert found.seconds == pytest.approx(1e-3)
    assert found.requests_per_s == pytest.approx(2_000)
    assert found.latencies_ns == (500_000, 1_000_500), "an open loop counts from the intended time"
    assert figures([]).requests_per_s == 0
