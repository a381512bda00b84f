"""Latency at equal load is compared only between sides that kept the pace, from the time requests were due."""

from __future__ import annotations

import math

import attrs
import pytest

from spark_analysis import load_run
from spark_analysis.convert import convert
from spark_analysis.decision import FASTER, UNDECIDED, decisions
from spark_analysis.figures import gather
from spark_analysis.offered import ANSWERED_SHARE_MIN, LATE_MS_MAX, PacedSide
from spark_analysis.report.page import render
from spark_analysis.run_quality import run_quality
from spark_analysis.summary import Comparison
from spark_analysis.summary_json import summary
from spark_analysis.tables import REPLAY_CLIENT
from tests.spark_analysis import made

HALF = made.load(1, offered_of="classic", offered_share=0.5, offered_per_s=500.0)
FULL = made.load(1, offered_of="classic", offered_share=0.95, offered_per_s=950.0)
LADDER = {"settings": {"experiment": "ladder"}}


def ladder(gains=(2.0, 2.2, 1.9), of=HALF, zero=None, one=None):
    """Return rounds in which side 1 has a latency lower by these gains; the pace of both sides is given."""
    found = []
    for place, gain in enumerate(gains):
        for side, extra in enumerate((zero or {}, one or {})):
            p99_us = 4000.0 / (gain if side else 1.0)
            waited = {"p99_us": p99_us, "late_us": 50.0, "growth": 0.0}
            waited |= {f"sent_{name}_us": p99_us / 2 * by for name, by in (("p50", 0.2), ("p99", 1), ("p999", 2))}
            waited |= extra
            found.append(made.run(of, place, side, of.offered_per_s or 100.0, waited=waited, **LADDER))
    return found


def test_the_ratio_is_that_of_paired_rounds_with_the_interval_of_rates():
    (each,) = made.comparison(ladder()).equal_loads
    ratio = each.ratios["p99"]
    logs = [math.log(1 / gain) for gain in (2.0, 2.2, 1.9)]
    mean = sum(logs) / 3
    half = 4.30265273 * math.sqrt(sum((log - mean) ** 2 for log in logs) / 2 / 3)
    assert math.log(ratio.value) == pytest.approx(mean)
    assert math.log(ratio.low) == pytest.approx(mean - half, rel=1e-6)
    assert math.log(ratio.high) == pytest.approx(mean + half, rel=1e-6)
    assert ratio.below
    assert each.side(0).latency_ms["p99"].value == pytest.approx(4.0)
    assert each.side(1).latency_ms["p99"].rounds == 3


@pytest.mark.parametrize(
    ("behind", "reason"),
    [
        ({"growth": 0.03}, "answers arrived at 97.1% of the pace"),
        ({"samples": made.REQUESTS * 97 // 100}, "answers arrived at 97.0% of the pace"),
        ({"growth": 3.0}, "answers arrived at less than 50% of the pace"),
        ({"samples": 0}, "no measured request was answered before the run ended"),
    ],
)
def test_a_side_that_did_not_keep_the_pace_is_named_and_its_latency_is_not_quoted(behind, reason):
    comparison = made.comparison([*ladder(of=FULL, zero=behind), *ladder()])
    half, full = comparison.equal_loads
    assert (half.load, full.load) == (HALF, FULL)
    assert set(half.ratios) == {"p50", "p99", "p999"}
    assert full.ratios == {}
    assert not full.side(0).kept_pace
    assert full.side(1).kept_pace
    from spark_analysis.findings import verdict

    found = summary(comparison, run_quality(comparison))
    unkept = f"classic did not keep the pace of 1 connection at 95% of classic's capacity (950/s) ({reason}"
    assert unkept in verdict(comparison, is_poor=False)
    (entry,) = [entry for entry in found["equal_load"] if entry["offered_share"] == 0.95]
    assert [(side["kept_pace"], side["p99_ms"] is None) for side in entry["sides"]] == [(False, True), (True, False)]
    assert entry["p99"] is None
    (cell,) = [cell for cell in found["cells"] if cell["mode"] == "classic" and cell["offered_share"] == 0.95]
    assert {each["p99_ms"] for each in cell["rounds"]} == {None}


def test_exactly_at_the_bound_the_pace_is_kept():
    edge = {"growth": 1 / ANSWERED_SHARE_MIN - 1 - 1e-9, "late_us": LATE_MS_MAX * 1000}
    (each,) = made.comparison(ladder(zero=edge, one=edge)).equal_loads
    assert all(side.kept_pace for side in each.sides)
    assert not each.is_late


LATE = {"late_us": 2500.0}


def test_with_a_late_client_both_latencies_are_quoted_and_the_interval_spans_both():
    (timely,) = made.comparison(ladder()).equal_loads
    (late,) = made.comparison(ladder(one=LATE | {"sent_p99_us": 500.0})).equal_loads
    assert (timely.is_late, late.is_late) == (False, True)
    assert late.side(1).kept_pace
    due, sent = timely.ratios["p99"], late.sent_ratios["p99"]
    assert sent.value == pytest.approx(0.25)
    found = late.ratios["p99"]
    assert (found.value, found.high) == (due.value, due.high)
    assert found.low == pytest.approx(min(due.low, sent.low))
    assert found.below
    assert late.side(1).sent_latency_ms["p99"].value == pytest.approx(0.5)
    assert timely.ratios["p99"].low == due.low


@pytest.mark.parametrize(("sent_us", "answer"), [(500.0, FASTER), (2000.0, UNDECIDED), (6000.0, UNDECIDED)])
def test_a_late_client_decides_only_what_both_latencies_decide(sent_us, answer):
    comparison = made.comparison(ladder(one=LATE | {"sent_p99_us": sent_us}))
    (decision,) = [each for each in decisions(comparison) if each.subject == "Latency at equal load"]
    assert decision.answer == answer
    assert any(
        line.startswith("The client itself sent late under 1 of 1 load, the median request by up to 2.50 ms")
        for line in decision.lines
    )


def test_a_ratio_without_an_interval_from_sending_decides_nothing():
    (each,) = made.comparison(ladder(gains=(2.0,), one=LATE)).equal_loads
    assert (each.ratios["p99"].low, each.ratios["p99"].high) == (None, None)


def test_the_page_has_both_latencies_of_a_side():
    comparison = made.comparison(ladder(one=LATE | {"sent_p99_us": 512.0}))
    page = render(comparison, run_quality(comparison), "out")
    assert "p99 from sending" in page
    assert "0.51 ms" in page
    found = summary(comparison, run_quality(comparison))
    assert found["equal_load"][0]["sides"][1]["sent_p99_ms"]["value"] == pytest.approx(0.512)


def test_a_shrinking_latency_does_not_offset_unanswered_requests():
    lost = {"growth": -0.5, "samples": made.REQUESTS * 9 // 10}
    (each,) = made.comparison(ladder(one=lost)).equal_loads
    assert each.side(1).answered_share == pytest.approx(0.9)


def test_loads_are_sorted_by_pace_with_the_replay_last():
    replay = made.load(1, client=REPLAY_CLIENT)
    comparison = made.comparison([*ladder(of=replay), *ladder(of=FULL), *ladder(of=HALF)])
    assert [each.load for each in comparison.equal_loads] == [HALF, FULL, replay]


def test_a_side_covers_all_its_runs_and_a_missing_side_is_none():
    runs = ladder(gains=(2.0, 2.0), zero={"late_us": 800.0}, one={"late_us": None})
    traced = [attrs.evolve(each, traced=True) for each in ladder(zero={"late_us": 9000.0})]
    (each,) = made.comparison([*runs, *traced]).equal_loads
    zero, one = each.side(0), each.side(1)
    assert (zero.runs, zero.requests, zero.late_ms, zero.kept_pace) == (2, 2 * made.REQUESTS, 0.8, True)
    assert one.late_ms is None
    assert each.side(2) is None


@pytest.mark.parametrize(("share", "late_ms", "is_kept"), [(0.98, 1.0, True), (0.9799, 1.0, False), (0.98, 9.0, True)])
def test_the_pace_is_kept_at_98_percent(share, late_ms, is_kept):
    assert PacedSide("classic", 0, 1, 1, share, late_ms, {}).kept_pace is is_kept


def test_a_single_round_with_unknown_growth():
    (each,) = made.comparison(ladder(gains=(2.0,), zero={"growth": None})).equal_loads
    zero, one = each.sides
    assert (zero.mode, zero.runs, zero.answered_share) == ("classic", 1, 1.0)
    assert (one.mode, one.runs, one.answered_share) == ("pipelined", 1, 1.0)
    assert each.ratios["p99"].value == pytest.approx(0.5)


def test_a_run_without_measurements_answered_nothing():
    runs = ladder(gains=(2.0, 2.0))
    runs[0] = attrs.evolve(runs[0], latency=None)
    runs[1] = attrs.evolve(runs[1], requests=0)
    (each,) = made.comparison(runs).equal_loads
    assert [side.answered_share for side in each.sides] == [0.5, 0.5]


def test_open_loops_count_in_no_speedup():
    comparison = made.comparison([*ladder(), *made.pairs(made.load(2), (2.0, 2.0, 2.0))])
    assert list(comparison.speedups) == [made.load(2)]
    assert list(comparison.latency_ratios["p99"]) == [made.load(2)]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_pace_and_lateness_are_computed_from_the_rows(synthetic, spark, tmp_path):
    """2,000 requests, one due each millisecond. Side 0 answers each after 3 ms. Side 1 takes 1.1 ms for each, and from
    the
    middle its client sends 4 ms late.
    """
    columns = {"experiment": "ladder", "in_flight": 5, "variant": "rate=50%-of-classic"}
    columns |= {"offered_of": "classic", "offered_share": 0.5, "offered_per_s": 1000.0}
    for side, mode in enumerate(made.SIDES):
        run = synthetic.RawRun(tmp_path / "raw", side + 1, mode=mode, side=side, **columns)
        for sequence in range(2000):
            due = synthetic.START_NS + sequence * 1_000_000
            late = 4_000_000 if side and sequence >= 900 else 0
            took = 3_000_000 + (sequence * 100_000 if side else 0)
            run.answer(due + late, due + max(took, late), sequence, intended_ns=due)
        run.write()
    convert(tmp_path, spark)
    (each,) = Comparison(gather(load_run(tmp_path, spark))).equal_loads
    zero, one = each.sides
    assert each.load.variant == ""
    assert (zero.answered_share, zero.late_ms) == (1.0, 0.0)
    assert zero.latency_ms["p99"].value == pytest.approx(3.0)
    assert one.answered_share == pytest.approx(1 / 1.1, rel=1e-3)
    assert one.late_ms == 4.0
    assert not one.kept_pace
    assert zero.sent_latency_ms["p99"].value == pytest.approx(3.0)
    assert one.sent_latency_ms["p50"].value < one.latency_ms["p50"].value


def test_a_side_that_kept_no_pace_is_reported_in_one_sentence():
    slow = {"growth": 0.5}
    comparison = made.comparison([*ladder(zero=slow), *ladder(of=FULL, zero=slow)])
    (decision,) = [each for each in decisions(comparison) if each.subject == "Latency at equal load"]
    assert decision.answer == UNDECIDED
    assert decision.lines == ("classic did not keep the pace of any of the 2 loads, so its latency is not quoted.",)


@pytest.mark.parametrize(
    ("zero", "one", "said"),
    [
        (0.5, 0.0, "classic did not keep the pace"),
        (0.0, 0.5, "pipelined did not keep the pace"),
        (0.5, 0.5, "neither kept the pace"),
    ],
)
def test_the_table_of_ratios_names_the_sides_that_did_not_keep_the_pace(zero, one, said):
    comparison = made.comparison(ladder(zero={"growth": zero}, one={"growth": one}))
    page = render(comparison, run_quality(comparison), "out")
    assert f"<td>{said}</td>" in page
