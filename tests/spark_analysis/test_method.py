"""The page says what a figure cannot, and how to make it again: as recorded, as a profile, or as a chosen grid."""

from __future__ import annotations

import attrs
import pytest

from spark_analysis.report.method import command, method
from tests.spark_analysis import made

GAINS = (2.0, 2.1, 2.2)


def grid(**columns):
    loads = [made.load(1, in_flight=depth, commit_delay_ms=delay) for depth in (1, 64) for delay in (0.0, 2.0)]
    return [run for load in loads for run in made.pairs(load, GAINS, **columns)]


def test_a_grid_of_ones_own_is_named():
    expected = (
        "pipeline-broker compare --out out/one-again --in-flight 1,64 --connections 1 --commit-delay 0,2ms --rounds 3"
    )
    assert command(made.comparison(grid()), "out/one") == expected


def test_what_only_a_profile_has_makes_it_a_profile():
    clients = made.pairs(made.load(client="confluent-kafka linger=0"), GAINS, settings={"experiment": "clients"})
    assert (
        command(made.comparison([*grid(), *clients]), "out/one")
        == "pipeline-broker compare --out out/one-again --rounds 3"
    )
    axis = made.pairs(made.load(), GAINS, settings={"experiment": "ablation"}, mode="own-queues")
    found = command(made.comparison([*grid(), *clients, *axis]), "out/one")
    assert found == "pipeline-broker compare --out out/one-again --profile full --rounds 3"


@pytest.mark.parametrize(
    ("directory", "beside"),
    [
        ("/data/one", "/data/one-again"),
        ("my runs/one", "'my runs/one-again'"),
        (".", "compare-again"),
        ("s3a://bucket/runs/one", "one-again"),
    ],
)
def test_an_experiment_is_repeated_beside_the_first_one_which_it_would_replace(directory, beside):
    assert command(made.comparison(grid()), directory).startswith(f"pipeline-broker compare --out {beside} --in-flight")


def test_a_recorded_command_is_repeated_as_it_was():
    runs = [attrs.evolve(run, settings={"command": "make results"}) for run in grid()]
    assert command(made.comparison(runs), "out/one") == "make results"


def test_what_classic_pays_in_the_page_cache_is_said_where_it_was_measured():
    said = "a ratio over classic is more than pipelining gains"
    assert said in method(made.comparison(grid(flush="os")))
    assert said not in method(made.comparison(grid(flush="always")))
