"""The compared sides: a mode with itself, other brokers with side 1, an ablation with its own classic runs."""

from __future__ import annotations

import pytest

from spark_analysis.findings import verdict
from spark_analysis.report.page import render
from spark_analysis.run_quality import run_quality
from spark_analysis.summary_json import summary
from tests.spark_analysis import made

LOAD = made.load(1)


def rounds(*sides, count=3):
    """Return rounds of (side, mode, requests per second, experiment)."""
    return [
        made.run(LOAD, place, side, rate, mode=mode, settings={"experiment": experiment})
        for place in range(count)
        for side, mode, rate, experiment in sides
    ]


def test_a_mode_compared_with_itself_has_one_cell_over_both_sides():
    comparison = made.comparison(rounds((0, "pipelined", 1000.0, "grid"), (1, "pipelined", 1250.0, "grid")))
    found = summary(comparison, run_quality(comparison))
    (cell,) = found["cells"]
    assert (cell["mode"], cell["requests"]) == ("pipelined", 6 * made.REQUESTS)
    (entry,) = found["speedups"]
    assert entry["speedup"] == pytest.approx(1.25, rel=1e-8)
    assert entry["low"] == pytest.approx(entry["high"], rel=1e-8)
    said = verdict(comparison, is_poor=False)
    assert said.startswith("pipelined against itself on this machine: throughput 1.25x (1.25x to 1.25x)")
    assert "0 of 1 intervals contain 1; 19 of 20 should. 1 load would be called different" in said
    assert "The ratio farthest from 1 is 1.25x" in said
    assert "against itself" in render(comparison, run_quality(comparison), "out")


def test_other_brokers_are_compared_with_side_b_and_are_not_a_side():
    modes = {"classic": 1000.0, "pipelined": 10_000.0, "kafka-synced": 500.0, "kafka": 10_000 / 3}
    sides = [(side, mode, rate, "grid") for side, (mode, rate) in enumerate(modes.items())]
    comparison = made.comparison(rounds(*sides))
    found = summary(comparison, run_quality(comparison))
    assert [cell["mode"] for cell in found["cells"]] == list(modes)
    (entry,) = found["speedups"]
    assert entry["speedup"] == pytest.approx(10, rel=1e-4)
    over = {entry["mode"]: entry["speedup"] for entry in found["over_others"]}
    assert over == {"kafka-synced": pytest.approx(20, rel=1e-4), "kafka": pytest.approx(3, rel=1e-4)}
    said = verdict(comparison, is_poor=False)
    assert "Beside Apache Kafka that flushes every message: pipelined is faster under 1 of 1 load" in said
    page = render(comparison, run_quality(comparison), "out")
    assert '<section id="others"' in page
    assert "classic against pipelined" in page


def test_every_axis_of_an_ablation_is_paired_with_the_classic_runs_of_its_own_rounds():
    grid = [(0, "classic", 1000.0, "grid"), (1, "pipelined", 10_000.0, "grid")]
    axes = {"mute-off": 1000.0, "own-queues": 500.0, "both": 5000.0, "pipelined": 4000.0}
    ablation = [(1, mode, rate, "ablation") for mode, rate in axes.items()]
    comparison = made.comparison(rounds(*grid, (0, "classic", 500.0, "ablation"), *ablation))
    found = summary(comparison, run_quality(comparison))
    assert [cell["mode"] for cell in found["cells"]] == ["classic", "pipelined"]
    assert [cell["mode"] for cell in found["ablation"]] == ["mute-off", "own-queues", "both"]
    (entry,) = found["speedups"]
    assert entry["speedup"] == pytest.approx(10, rel=1e-4), "the ablation's runs are not in it"
    over = {entry["mode"]: entry for entry in found["over_classic"]}
    expected = {"mute-off": 2, "own-queues": 1, "both": 10, "pipelined": 8}
    assert {mode: round(entry["speedup"], 2) for mode, entry in over.items()} == expected
    assert all(entry["low"] <= entry["speedup"] <= entry["high"] and entry["rounds"] == 3 for entry in over.values())
    page = render(comparison, run_quality(comparison), "out")
    assert "mute off only (many in flight, commit per request), " in page
    assert "2.0x (2.0x to 2.0x)" in page
    assert "10.0x (10.0x to 10.0x)" in page
