"""The samples of a side, and those of the noise of the machine, in plain Python."""

import pytest

from spark_analysis.noise import compared_with_itself
from spark_analysis.pairs import percentile
from tests.spark_analysis import made


def test_a_percentile_of_several_runs_needs_enough_samples_in_each():
    first, second = (made.run(made.load(), 0, 1, p99_us=p99_us) for p99_us in (4000.0, 9000.0))
    few = made.run(made.load(), 0, 1, waited={"samples": 100})
    assert percentile("p99")([first, second]) == pytest.approx(6.0)
    assert percentile("p99")([first, few]) is None
    assert percentile("p99")([]) is None


def test_traced_runs_do_not_count_as_noise():
    of = made.load()
    runs = made.pairs(of, (1.0, 1.02, 0.99), mode="pipelined")
    traced = made.pairs(of, (3.0, 3.0, 3.0), mode="pipelined", traced=True)
    assert compared_with_itself([*traced, *runs]) == compared_with_itself(runs)
