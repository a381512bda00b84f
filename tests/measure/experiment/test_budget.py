"""The time left of an experiment follows the estimate at first, then its own pace."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.budget import (
    OPEN_S_MAX,
    OTHER_START_S,
    Costs,
    TimeLeft,
    in_words,
    open_seconds,
)
from pipeline_broker.measure.experiment.plan import Request, plan

positive = st.floats(0.1, 1e5)


@given(positive, st.floats(0, 1))
def test_at_the_estimated_pace_the_time_left_is_the_rest_of_the_estimate(total_s, share):
    left = TimeLeft(total_s)
    left.add(total_s * share)
    assert left.seconds(total_s * share) == pytest.approx(total_s * (1 - share), abs=1e-6)


@given(positive, st.floats(0.05, 1), st.floats(0.5, 5))
def test_a_slower_pace_prolongs_the_time_left(total_s, share, slower):
    left = TimeLeft(total_s)
    left.add(total_s * share * 1.001)
    elapsed_s = left.done_s * slower
    assert left.seconds(elapsed_s) == pytest.approx(max(0, total_s - left.done_s) * slower, abs=1e-6)


def test_one_slow_start_does_not_change_the_estimate():
    left = TimeLeft(3600)
    left.add(1)
    assert left.seconds(60) == 3599


def test_an_empty_experiment_has_no_time_left():
    assert TimeLeft(0).seconds(5) == 0


def test_the_estimate_is_that_of_its_runs_and_starts():
    groups = plan(Request(in_flight=(1,), connections=(1,), rounds=4), 1)
    costs = Costs(1.0, 1.0)
    runs = [run for group in groups for run in group.runs]
    expected = sum(map(costs.of_run, runs)) + sum(map(costs.of_start, groups))
    assert costs.of(groups) == pytest.approx(expected)
    assert costs.of(groups) > 10


def test_a_broker_of_another_project_is_started_once_for_all_rounds():
    request = Request(in_flight=(1,), connections=(1,), rounds=4)
    with_kafka = plan(attrs.evolve(request, others=("kafka-synced", "kafka")), 1)
    costs = Costs(1.0, 1.0)
    started = sum(costs.of_start(group) + sum(map(costs.of_run, group.runs)) for group in with_kafka)
    assert costs.of(with_kafka) == pytest.approx(started + 2 * OTHER_START_S)
    first = with_kafka[0]
    assert costs.of_start(first, 2) == pytest.approx(costs.of_start(first) + 2 * OTHER_START_S)


@given(st.floats(0.1, 1e6), st.floats(0.1, 2), st.floats(0, 0.09))
def test_an_open_loop_is_long_enough_for_a_p99_but_limited(rate_per_s, run_s, warmup_s):
    seconds = open_seconds(rate_per_s, run_s, warmup_s)
    assert run_s <= seconds <= max(run_s, OPEN_S_MAX + warmup_s)
    assert (seconds - warmup_s) * rate_per_s >= 500 or seconds == pytest.approx(max(run_s, OPEN_S_MAX + warmup_s))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (40.4, "40 s"), (89, "89 s"), (91, "2 min"), (3540, "59 min"), (3900, "1 h 05 min")],
)
def test_times_are_formatted_in_words(seconds, words):
    assert in_words(seconds) == words
