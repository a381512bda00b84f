"""Figures agree with brute force, and percentiles without enough samples are None."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.load.statistics import figures, order_violations, percentile_ns
from pipeline_broker.traces.client_rows import ClientRow
from tests.drawn import drawn, measured

stamps = st.integers(0, 2**40)


@measured(enough=0.1, too_few=0.1)
@given(
    st.lists(stamps, min_size=1, max_size=3000).map(sorted)
    | st.builds(lambda count, step: [step * it for it in range(count)], st.integers(20, 20_000), stamps),
    st.sampled_from([0.5, 0.99, 0.999]),
)
def test_a_percentile_is_the_interpolated_order_statistic_or_none(ordered, quantile):
    found = percentile_ns(ordered, quantile)
    thousandths = round(quantile * 1000)
    if drawn("too_few", len(ordered) * (1000 - thousandths) < 10 * 1000):
        assert found is None
        return
    drawn("enough")
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


def open_row(number, due_ns, wait_ns):
    answered_ns = None if wait_ns is None else due_ns + wait_ns
    return ClientRow(0, number, number, due_ns, due_ns, answered_ns, 0, True)


@given(st.integers(0, 10**9), st.integers(-900, 5000), st.integers(2, 50), st.integers(0, 20))
def test_an_open_loop_has_a_pace_and_a_growth_of_latency(wait_ns, promille, count, missing):
    gap_ns = 1_000_000
    rows = [
        open_row(number, number * gap_ns, wait_ns + 10**9 + number * gap_ns * promille // 1000)
        for number in range(count)
    ]
    rows += [open_row(count + number, (count + number) * gap_ns, None) for number in range(missing)]
    found = figures(rows)
    assert (found.requests, found.unanswered) == (count, missing)
    assert found.due_s == pytest.approx((count + missing - 1) * gap_ns / 1e9)
    assert found.growth == pytest.approx(promille / 1000, abs=1e-3)
    answered = count / (count + missing)
    assert found.answered_share == pytest.approx(answered / (1 + max(0, promille / 1000)), rel=1e-2)


def test_without_answers_the_answered_share_is_zero():
    found = figures([open_row(number, number * 1000, None) for number in range(5)])
    assert (found.requests, found.unanswered, found.answered_share, found.growth) == (0, 5, 0.0, 0.0)
