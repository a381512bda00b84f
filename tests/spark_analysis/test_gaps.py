"""Partial and doubtful experiments still give a report, which lists each gap in one sentence."""

from __future__ import annotations

import json

import attrs
import pytest

from spark_analysis.__main__ import main
from spark_analysis.cells import Cell, Load, Run, short_variants
from spark_analysis.convert import convert
from spark_analysis.errors import TraceError
from spark_analysis.figures import Figures
from spark_analysis.gaps import gaps
from spark_analysis.inside_figures import Inside, Quality
from spark_analysis.location import Location
from spark_analysis.run import TraceRun, load_run
from spark_analysis.summary import Comparison

RAW = Load("raw", 1, 5, 0.0)
DEEP = Load("raw", 1, 64, 0.0)
ZERO = Run(1, 0, False, 0, Cell("classic", RAW), "always", {}, {}, 0.5, 0, 100, 0, 0, 10**9)
ONE = attrs.evolve(ZERO, number=2, side=1, cell=Cell("pipelined", RAW))
TRACED = attrs.evolve(ZERO, number=3, traced=True, round=1)
WHOLE = (ZERO, ONE, TRACED)


def said(*runs, quality=(), left_out=()):
    inside = Inside(quality=tuple(quality))
    figures = Figures(tuple(runs), {}, {}, (), {}, {}, (), inside=inside, left_out=left_out)
    return gaps(Comparison(figures))


def test_an_experiment_that_lacks_nothing_has_no_gap():
    assert said(*WHOLE, quality=[Quality(1, "client", 100, 0, 0.0, 0, 0)]) == []


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        (
            (ZERO, TRACED),
            "1 load has no run of the other side in the same round, and no speed-up: native client: 1 connection",
        ),
        (
            (*WHOLE, attrs.evolve(ZERO, number=4, round=1)),
            "Rounds in which one side is missing do not count in the speed-up of: native client: 1 connection",
        ),
        ((ZERO, attrs.evolve(ONE, round=1), TRACED), "1 load has no run of the other side in the same round"),
        ((*WHOLE, attrs.evolve(ONE, cell=Cell("pipelined", DEEP))), "1 load has no run of classic in the same round"),
        ((*WHOLE[:2],), "No run was traced, so stage times are unknown"),
        (
            (attrs.evolve(ZERO, requests=0), ONE, TRACED),
            "1 run measured no request, so this page has no results of run 1.",
        ),
        ((ZERO, ONE, attrs.evolve(TRACED, lost_rows=7)), "7 trace rows did not fit into a ring, in 1 run"),
    ],
)
def test_each_gap_is_one_sentence(runs, sentence):
    (found,) = said(*runs)
    assert found.startswith(sentence)


def test_clocks_that_went_back_and_unanswered_requests_are_reported():
    quality = [Quality(1, "client", 100, 3, 4_000.0, 0, 0), Quality(3, "requests", 100, 1, 2_000_000.0, 5, None)]
    (found,) = said(*WHOLE, quality=quality)
    assert found.startswith(
        "A clock went back: stamps of 4 rows are in the wrong order, by up to 2,000 ms, in run 1, run 3"
    )
    (found,) = said(*WHOLE, quality=[Quality(2, "client", 100, 0, 0.0, 2, 0)])
    where = "native client: 1 connection x 5 in flight, pipelined"
    assert found == f"2 requests had no answer when the client stopped, under the loads: {where}."


def test_several_gaps_use_the_plural_and_the_gravest_comes_first():
    deep, wide = (attrs.evolve(ONE, cell=Cell("pipelined", load)) for load in (DEEP, Load("raw", 9, 5, 0.0)))
    empty = [attrs.evolve(each, requests=0, lost_rows=3) for each in (deep, wide)]
    quality = [Quality(1, "client", 100, 1, 1_000.0, 3, 0), Quality(2, "client", 100, 0, 0.0, 4, 0)]
    short = [attrs.evolve(ZERO, number=4 + place, round=place) for place in (1, 2)]
    found = said(ZERO, ONE, *short, *empty, quality=quality, left_out=("run-00009",))
    assert [sentence.split(":")[0] for sentence in found] == [
        "1 run did not finish and is left out",
        "2 runs measured no request, so this page has no results of run 2, run 2.",
        "2 loads have no run of classic in the same round, and no speed-up",
        "Rounds in which one side is missing do not count in the speed-up of",
        "No run was traced, so stage times are unknown, and only the client's data shows the order of responses.",
        "A clock went back",
        "7 requests had no answer when the client stopped, under the loads",
        "6 trace rows did not fit into a ring, in 2 runs. Counts of rows are too low in those runs.",
    ]
    assert found[3].endswith("(2 of 3 rounds).")
    assert "stamps of 1 row are in the wrong order, by up to 1.00 ms, in run 1." in found[5]


def test_the_missing_side_is_named():
    other = attrs.evolve(ZERO, number=9, cell=Cell("classic", DEEP))
    (found,) = said(*WHOLE, other)
    assert found.startswith("1 load has no run of pipelined in the same round, and no speed-up: ")
    alone = attrs.evolve(ZERO, round=1, cell=Cell("classic", DEEP))
    (found,) = said(*WHOLE, alone, attrs.evolve(ONE, round=2, cell=Cell("pipelined", DEEP)))
    assert found.startswith("1 load has no run of the other side in the same round")


def test_a_run_of_another_broker_needs_no_partner():
    assert said(*WHOLE, attrs.evolve(ZERO, number=9, side=2, cell=Cell("another", DEEP))) == []


def test_names_are_cut_after_five():
    (found,) = said(*WHOLE, left_out=[f"run-{number:05}" for number in range(5)])
    assert "run-00003, run-00004. If" in found
    (found,) = said(*WHOLE, left_out=[f"run-{number:05}" for number in range(9)])
    assert found.startswith("9 runs did not finish and are left out: run-00000, ")
    assert "run-00004 and 4 more. If" in found


def test_variants_lose_what_they_have_in_common():
    assert short_variants({"flush=os size=1", "flush=os size=2"}) == {
        "flush=os size=1": "size=1",
        "flush=os size=2": "size=2",
    }
    assert short_variants({"flush=os"}) == {"flush=os": ""}
    assert short_variants({"", "size=2"}) == {"": "", "size=2": "size=2"}


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark never closes its sockets
def test_a_damaged_list_of_left_out_runs_is_refused(spark, tmp_path):
    (tmp_path / "left-out.json").write_text("[oops")
    with pytest.raises(TraceError, match=r"left-out\.json is not a JSON list"):
        TraceRun(Location(spark, tmp_path)).left_out  # noqa: B018


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark never closes its sockets
def test_interrupted_runs_are_left_out_and_listed(synthetic, spark, tmp_path):
    for number in (1, 2, 3):
        run = synthetic.RawRun(tmp_path / "raw", number)
        run.answer(10, 20, 0)
        folder = run.write()
    convert(tmp_path, spark)
    assert TraceRun(Location(spark, tmp_path / "traces")).left_out == ()
    (folder / "run.json").unlink()
    convert(tmp_path, spark)
    assert load_run(tmp_path, spark).runs.count() == 2
    assert TraceRun(Location(spark, tmp_path / "traces")).left_out == ("run-00003",)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark never closes its sockets
def test_the_report_of_a_partial_experiment_lists_its_gaps(synthetic, spark, tmp_path):
    """One side only, a run without a request, an interrupted run, and an answer before its request."""
    assert spark is not None
    run = synthetic.RawRun(tmp_path / "raw", 1)
    synthetic.steady(run, [500] * 40, gap_us=100)
    run.answer(synthetic.START_NS + 9_000_000, synthetic.START_NS, 40)
    run.write()
    synthetic.RawRun(tmp_path / "raw", 2, round=1).write()
    (synthetic.RawRun(tmp_path / "raw", 3, side=1, mode="pipelined").write() / "run.json").unlink()
    assert main([str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    missing = page.split('<section id="missing"')[1].split("</section>")[0]
    assert missing.count("<li>") == 5
    for part in ("run-00003", "run 2.", "no run of the other side", "No run was traced", "by up to 9.00 ms"):
        assert part in missing
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["speedups"] == []
    assert summary["cells"][0]["requests"] == 41
