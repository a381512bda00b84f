"""The page shows the method, the date and the version of its runs, and the commands that repeat it."""

from __future__ import annotations

from html import unescape

import attrs

from spark_analysis.report.method import method
from spark_analysis.report.page import render
from spark_analysis.run_quality import run_quality
from spark_analysis.summary_json import summary
from tests.spark_analysis import made

GAINS = (2.0, 2.1, 2.2)


def grid(**columns):
    loads = [made.load(1, in_flight=depth, commit_delay_ms=delay) for depth in (1, 64) for delay in (0.0, 2.0)]
    return [run for load in loads for run in made.pairs(load, GAINS, **columns)]


MADE = {
    "command": "pipeline-broker compare --out 'my runs/one' --seed 7",
    "date": "2026-11-29 12:00 UTC",
    "pipeline-broker": "0.2.0",
    "commit": "0123456789ab",
    "trio": "0.31.0",
}


def test_the_page_shows_the_recorded_command_date_and_version():
    comparison = made.comparison([attrs.evolve(run, machine=MADE) for run in grid()])
    page = render(comparison, run_quality(comparison), "my runs/one")
    reproduced = page[page.index('<section id="reproduce"') :]
    assert "pipeline-broker compare --out 'my runs/one' --seed 7\npipeline-broker report 'my runs/one'" in unescape(
        reproduced
    )
    assert (
        "; 2026-11-29 12:00 UTC, pipeline-broker 0.2.0 0123456789ab. Our brokers answered"
        in page[: page.index("<main")]
    )


def test_without_a_recorded_command_the_page_shows_none():
    comparison = made.comparison(grid())
    page = render(comparison, run_quality(comparison), "out/one")
    assert "pipeline-broker compare" not in page
    assert "The traces do not name the command of the experiment" in page
    assert "measured requests. Our brokers answered when a record was on the disk" in page[: page.index("<main")]


def test_the_summary_has_the_machine_of_every_run():
    runs = [attrs.evolve(run, machine={**MADE, "steal_share": run.number / 1000}) for run in grid()]
    comparison = made.comparison(runs)
    found = summary(comparison, run_quality(comparison))
    assert found["machine"]["command"] == MADE["command"]
    assert [each["run"] for each in found["runs"]] == sorted(run.number for run in runs)
    first = min(runs, key=lambda run: run.number)
    assert found["runs"][0] == {
        "run": first.number,
        "round": first.round,
        "side": first.side,
        "mode": first.cell.mode,
        "traced": False,
        "others_share": None,
        "steal_share": first.number / 1000,
    }


def test_flush_os_warns_that_classic_pays_for_its_thread():
    said = "a ratio over classic is more than pipelining gains"
    assert said in method(made.comparison(grid(flush="os")))
    assert said not in method(made.comparison(grid(flush="always")))
