"""A mode compared with itself shows the noise, and equal sides are seldom called different."""

from __future__ import annotations

import random

import attrs
import pytest

from spark_analysis.findings import verdict
from tests.spark_analysis import made

DEEP = made.load(1, in_flight=64)
SURE = (3.0, 3.1, 3.2, 2.9, 3.0)


def self_runs(gains, spread=0.0, seed=1):
    of = made.load(1, variant="self")
    runs = made.pairs(of, gains, random.Random(seed), spread, mode="pipelined", settings={"experiment": "self"})
    return [attrs.evolve(run, round=run.round) for run in runs]


def test_a_mode_against_itself_is_reported_and_counts_only_as_noise():
    alone = made.comparison(made.pairs(DEEP, SURE))
    with_noise = made.comparison([*made.pairs(DEEP, SURE), *self_runs((1.0, 1.02, 0.98, 1.01, 1.0))])
    assert "No mode was compared with itself (A/A)" in verdict(alone, is_poor=False)
    assert "pipelined against itself on this machine: throughput 1.00x (0.98x to 1.02x), p99 1.00x (" in verdict(
        with_noise, is_poor=False
    )
    assert with_noise.speedups.keys() == alone.speedups.keys()
    assert with_noise.sides == alone.sides
    assert with_noise.cells.keys() == alone.cells.keys()
    (cell,) = with_noise.cells_of_noise.values()
    assert (cell.requests, len(cell.rounds)) == (10 * made.REQUESTS, 10)


def test_the_loads_of_a_and_a_are_combined_round_by_round():
    """One of two loads gains as much as the other loses, so together they do not differ."""
    of = [made.load(number, variant="self") for number in (1, 2)]
    columns = {"mode": "pipelined", "settings": {"experiment": "self"}}
    up, down = (1.2, 1.1, 1.3), (1 / 1.2, 1 / 1.1, 1 / 1.3)
    runs = [run for each, gains in zip(of, (up, down), strict=True) for run in made.pairs(each, gains, **columns)]
    noise = made.comparison(runs).noise
    assert noise.rate.value == pytest.approx(1.0)
    assert (noise.rate.low, noise.rate.high) == pytest.approx((1.0, 1.0))
    assert [noise.loads[load].value > 1 for load in of] == [True, False]


EXPERIMENTS = 200
CALLED_MAX = 0.08
"""Of experiments with equal sides: 5 % by chance, and what 200 of them may be off."""


def equal_experiment(drawn, rounds=5, turns=3):
    """Return the A/A runs of `quick`: brokers differ a little, runs differ more, and one in fifty has a pause."""
    runs = []
    for number in range(rounds):
        for side in (0, 1):
            broker = drawn.lognormvariate(0, 0.02)
            for _ in range(turns):
                pause = drawn.uniform(0.3, 0.9) if drawn.random() < 0.02 else 1.0
                rate = 60_000 * broker * pause * drawn.lognormvariate(0, 0.05)
                p99_us = 2000 / pause / broker * drawn.lognormvariate(0, 0.2)
                settings = {"experiment": "self"}
                of = DEEP._replace(variant="self")
                runs.append(made.run(of, number, side, rate, p99_us=p99_us, mode="pipelined", settings=settings))
    return runs


def test_of_200_experiments_with_equal_sides_few_are_called_different():
    drawn = random.Random(20131109)
    found = [made.comparison(equal_experiment(drawn)).noise for _ in range(EXPERIMENTS)]
    for ratios in ([noise.rate for noise in found], [noise.p99 for noise in found]):
        assert sum(ratio.excludes_one for ratio in ratios) <= CALLED_MAX * EXPERIMENTS
    assert sum(noise.called for noise in found) <= CALLED_MAX * EXPERIMENTS
