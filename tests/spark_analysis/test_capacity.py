"""The capacity model recovers the parameters that made the cells, and its errors are those on unseen cells."""

from __future__ import annotations

import random

import pytest

from spark_analysis.capacity import Measured, Model, capacity, commit_bound, fit, gain_bound, least_squares

TRUTH = Model(fixed_ms=0.4, cost_ms=0.02, commits=1.2)
LOADS = [(outstanding, delay) for outstanding in (1, 5, 64, 256) for delay in (0.0, 2.0, 10.0)]


def cells(truth, noise=0.0, loads=LOADS):
    drawn = random.Random(3)
    return [Measured(k, delay, truth.rate(k, delay) * drawn.lognormvariate(0, noise)) for k, delay in loads]


def values(model):
    return (model.fixed_ms, model.cost_ms, model.commits)


def test_cells_without_noise_recover_the_parameters():
    assert values(fit(cells(TRUTH))) == pytest.approx(values(TRUTH))


def test_noise_of_five_percent_moves_them_little_and_predicts_a_slower_disk_well():
    found = capacity(cells(TRUTH, noise=0.05))
    assert values(found.model) == pytest.approx(values(TRUTH), rel=0.15)
    assert found.model.rate(64, 100.0) == pytest.approx(TRUTH.rate(64, 100.0), rel=0.1)
    assert 0.01 < found.held_out.middle < 0.1
    assert found.held_out.cells == len(LOADS)
    assert found.longer_delay.cells == 4


def test_no_part_is_negative_whatever_the_cells_say():
    odd = [Measured(1, 0.0, 1000.0), Measured(1, 2.0, 2000.0), Measured(64, 0.0, 500_000.0), Measured(64, 2.0, 10.0)]
    assert min(values(fit(odd))) >= 0


def test_a_cell_that_breaks_the_law_shows_in_the_held_out_errors():
    planted = cells(TRUTH)
    planted[5] = Measured(planted[5].outstanding, planted[5].delay_ms, planted[5].rate / 3)
    found = capacity(planted)
    assert found.held_out.most > 1.5
    assert found.held_out.most > found.inside.most


def test_without_varied_delays_a_delay_counts_once():
    found = fit(cells(TRUTH, loads=[(k, 0.0) for k in (1, 5, 64)]))
    assert values(found) == pytest.approx((0.4, 0.02, 1.0))
    for delay in range(1, 21):  # also where a second commit would explain the cells as well
        found = fit(cells(Model(0.4, 0.02, 1.0), loads=[(k, float(delay)) for k in (1, 5, 64)]))
        assert values(found) == pytest.approx((0.4, 0.02, 1.0)), "it is not in the fixed part"


def test_with_only_the_delay_varied_the_cost_is_in_the_fixed_part():
    found = fit(cells(TRUTH, loads=[(5, delay) for delay in (0.0, 2.0, 10.0)]))
    assert values(found) == pytest.approx((0.5, 0.0, 1.2))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_cells_have_no_capacity(count):
    assert capacity(cells(TRUTH)[:count]) is None


@pytest.mark.parametrize(
    "loads",
    [
        [(k, delay) for k in (1, 64) for delay in (0.0, 2.0)],
        [(1, 0.0), (64, 0.0), (1, 2.0)],
    ],
)
def test_two_levels_of_each_and_as_many_cells_as_parameters_determine_a_model(loads):
    assert values(fit(cells(TRUTH, loads=loads))) == pytest.approx(values(TRUTH))


def test_fewer_cells_than_parameters_determine_none():
    assert fit(cells(TRUTH, loads=[(1, 0.0), (64, 2.0)])) is None


def test_a_single_cell_is_a_time_that_is_fixed():
    assert values(fit(cells(TRUTH, loads=[(5, 0.0)]))) == pytest.approx((0.5, 0.0, 1.0))
    assert fit([]) is None


def test_loads_that_grow_together_are_fitted_by_one_of_them():
    """The cells cannot show which of the two it is."""
    loads = [(1, 0.0), (2, 1.0), (3, 2.0), (4, 3.0)]
    found = fit(cells(TRUTH, loads=loads))
    assert [found.rate(*load) for load in loads] == pytest.approx([TRUTH.rate(*load) for load in loads])


def test_as_many_cells_as_parameters_and_two_more_have_a_capacity():
    loads = [(1, 0.0), (5, 0.0), (64, 0.0)]
    assert capacity(cells(TRUTH, loads=loads)).cells == 3
    assert capacity(cells(TRUTH, loads=loads[:2])) is None


def test_only_cells_that_were_measured_count():
    found = capacity([*cells(TRUTH), Measured(64, 0.0, 0.0), Measured(0, 0.0, 100.0)])
    assert (found.cells, values(found.model)) == (len(LOADS), pytest.approx(values(TRUTH)))
    assert (found.inside.cells, found.held_out.cells, found.longer_delay.cells) == (12, 12, 4)


@pytest.mark.parametrize("delays", [(0.0,), (0.0, 2.0)])
def test_an_error_at_the_longest_delay_needs_two_shorter_ones(delays):
    assert capacity(cells(TRUTH, loads=[(k, delay) for k in (1, 5, 64) for delay in delays])).longer_delay is None


def test_an_error_is_relative_to_what_was_measured():
    """Of four equal loads the model predicts the mean of their times."""
    found = capacity([Measured(1, 0.0, rate) for rate in (500.0, 1000.0, 1000.0, 1000.0)])
    said = found.model.rate(1, 0.0)
    errors = sorted(abs(said / rate - 1) for rate in (500.0, 1000.0, 1000.0, 1000.0))
    assert (found.inside.cells, found.inside.most) == (4, pytest.approx(errors[-1]))
    assert found.inside.middle == pytest.approx((errors[1] + errors[2]) / 2)
    assert found.held_out.most > found.inside.most


def test_each_cell_is_predicted_by_the_model_of_all_others():
    measured = [Measured(1, 0.0, rate) for rate in (500.0, 800.0, 1000.0, 1300.0)]
    errors = [
        abs(fit([other for other in measured if other is not one]).rate(1, 0.0) / one.rate - 1) for one in measured
    ]
    held_out = capacity(measured).held_out
    assert (held_out.cells, held_out.most) == (4, pytest.approx(max(errors)))
    assert held_out.middle == pytest.approx(sum(sorted(errors)[1:3]) / 2)


def test_cells_without_a_rate_do_not_count():
    assert capacity([Measured(1, 0.0, 0.0)] * 5) is None


def test_dependent_equations_have_no_solution():
    assert least_squares([(1.0, 2.0), (2.0, 4.0)], [1.0, 2.0]) is None
    assert least_squares([(1.0, 2.0), (2.0, 1.0)], [5.0, 4.0]) == pytest.approx([1.0, 2.0])


def test_bounds_are_arithmetic():
    assert commit_bound(1, 10_000) == pytest.approx(100)  # one request at a time, 10 ms each
    assert commit_bound(16, 10_000) == pytest.approx(1600)
    assert commit_bound(16, None) is None
    assert commit_bound(16, 0.0) is None
    assert Model(0.5, 0.25, 2.0).cycle_ms(4, 3.0) == 7.5
    assert Model(0.5, 0.25, 2.0).rate(4, 3.0) == pytest.approx(4000 / 7.5)
    assert [gain_bound(depth, ordinary=True) for depth in (1, 5, 64)] == [1, 5, 5]
    assert gain_bound(64, ordinary=False) == 64
