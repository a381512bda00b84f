"""Planted latencies, rates and speed-ups come back exactly, through ring files, Parquet and Spark."""

from __future__ import annotations

import json
import math

import pytest

from spark_analysis import load_run, stage_latency
from spark_analysis.analyse import report, write
from spark_analysis.convert import convert
from spark_analysis.errors import TraceError
from spark_analysis.figures import gather
from spark_analysis.location import Location
from spark_analysis.report.inside import commits
from spark_analysis.summary import Comparison

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

STAGES = {
    "RequestQueue": 20,
    "Local": 15,
    "LaterSteps": 6,
    "CommitWait": 300,
    "Remote": 340,
    "ResponseOrderWait": 7,
    "ResponseQueue": 50,
    "ResponseSend": 11,
}
SIDES = ("classic", "pipelined")
PAIRS = [(100, 50), (100, 25), (120, 40)]  # microseconds between requests on side 0 and side 1, one pair a round


def plant(synthetic, directory):
    """Write three rounds of the native client, a replay, a small confluent cell and a traced round, with known
    answers.
    """
    raw = directory / "raw"
    number = 0
    latencies = list(range(1, 4001))
    for place, gaps in enumerate(PAIRS):
        for side, (mode, gap_us) in enumerate(zip(("classic", "pipelined"), gaps, strict=True)):
            number += 1
            run = synthetic.RawRun(raw, number, round=place, side=side, mode=mode, in_flight=5)
            synthetic.steady(run, [1000 * (1 + side)] * 400 if place else latencies, gap_us=gap_us)
            run.answer(synthetic.START_NS - 9_000_000, synthetic.START_NS - 1, -1, measured=False, correlation_id=None)
            run.write()
    for side, mode in enumerate(("classic", "pipelined")):
        number += 1
        run = synthetic.RawRun(raw, number, side=side, mode=mode, client="replay", connections=4, in_flight=64)
        for sequence in range(2000):  # every tenth leaves 3 ms late and is answered 1 ms later
            due = synthetic.START_NS + sequence * 1_000_000
            late = 3_000_000 if sequence % 10 == 0 else 0
            run.answer(due + late, due + late + 1_000_000, sequence, intended_ns=due)
        run.write()
        number += 1
        run = synthetic.RawRun(
            raw, number, side=side, mode=mode, client="confluent-kafka linger=5", connections=16, in_flight=5
        )
        for sequence in range(19):
            sent = synthetic.START_NS + sequence * 1000
            run.answer(sent, sent + 5_000_000, sequence, correlation_id=None, error=-185 if sequence == 3 else 0)
        run.write()
        number += 1
        run = synthetic.RawRun(raw, number, round=3, side=side, mode=mode, in_flight=5, traced=True)
        synthetic.steady(run, [1000] * 100, gap_us=200)
        for sequence in range(100):
            stages = {name: value * (1 + side) + (sequence == 99) * 10_000 for name, value in STAGES.items()}
            synthetic.traced_request(run, 0, sequence, synthetic.START_NS + sequence * 1_000_000_000, stages)
            synthetic.append(run, 0, sequence, sequence)
        for size in (1, 1, 4, 64):
            stamps = {"started_ns": 0, "written_ns": 50_000, "durable_ns": 350_000, "completed_ns": 400_000}
            run.add("commits", commit=size, entries=size, bytes=size * 100, is_on_loop=size == 1, **stamps)
        run.write()


@pytest.fixture(scope="module")
def planted(synthetic, spark, tmp_path_factory):
    directory = tmp_path_factory.mktemp("planted")
    plant(synthetic, directory)
    convert(directory, spark)
    return directory


@pytest.fixture(scope="module")
def figures(planted, spark):
    return gather(load_run(planted, spark))


@pytest.fixture(scope="module")
def summary(planted, figures, spark):
    write(Location(spark, planted), Comparison(figures))
    return json.loads((planted / "summary.json").read_text())


def cell_of(summary, client, mode):
    (cell,) = [cell for cell in summary["cells"] if (cell["client"], cell["mode"]) == (client, mode)]
    return cell


def test_rate_is_all_requests_over_the_sum_of_the_runs_times(summary):
    cell = cell_of(summary, "raw", "classic")
    seconds = [3999 * 100e-6 + 4000e-6 + 500e-9, 399 * 100e-6 + 1000e-6 + 500e-9, 399 * 120e-6 + 1000e-6 + 500e-9]
    assert cell["requests"] == 4800
    assert cell["requests_per_s"] == pytest.approx(4800 / sum(seconds), rel=1e-8)


def test_percentiles_are_exact_in_whole_microseconds(summary):
    """Round 0 has the latencies 1, 2, ..., 4000 us; the 800 requests of the other rounds take 1000 us."""
    values = sorted([*range(1, 4001), *([1000] * 800)])
    cell = cell_of(summary, "raw", "classic")
    assert cell["p50_ms"] == interpolated(values, 0.5) / 1000
    assert cell["p99_ms"] == pytest.approx(interpolated(values, 0.99) / 1000, rel=1e-8)
    assert cell["p999_ms"] is None  # 4.8 samples beyond it


def interpolated(values, quantile):
    place = quantile * (len(values) - 1)
    low = math.floor(place)
    return values[low] + (place - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def test_open_loop_latency_counts_from_the_intended_time(summary):
    cell = cell_of(summary, "replay", "pipelined")
    assert (cell["p50_ms"], cell["p99_ms"]) == (1.0, 4.0)


def test_a_percentile_with_too_few_samples_beyond_it_is_null(summary):
    cell = cell_of(summary, "confluent-kafka linger=5", "classic")
    assert cell["requests"] == 19
    assert (cell["p50_ms"], cell["p99_ms"], cell["p999_ms"]) == (None, None, None)


def test_speedup_is_the_geometric_mean_over_paired_rounds_with_a_t_interval(summary):
    (speedup,) = [entry for entry in summary["speedups"] if entry["client"] == "raw"]
    assert {name: speedup[name] for name in ("in_flight", "connections", "commit_delay_ms", "rounds")} == {
        "in_flight": 5,
        "connections": 1,
        "commit_delay_ms": 0,
        "rounds": 3,
    }
    logs = []
    for place, gaps in enumerate(PAIRS):
        count = 399 if place else 3999
        last = (4000, 4000) if not place else (1000, 2000)
        zero, one = (count * gap + tail + 0.5 for gap, tail in zip(gaps, last, strict=True))
        logs.append(math.log(zero / one))
    mean = sum(logs) / 3
    error = math.sqrt(sum((log - mean) ** 2 for log in logs) / 2 / 3)
    assert speedup["speedup"] == pytest.approx(math.exp(mean), rel=1e-8)
    assert speedup["low"] == pytest.approx(math.exp(mean - 4.30265273 * error), rel=1e-6)
    assert speedup["high"] == pytest.approx(math.exp(mean + 4.30265273 * error), rel=1e-6)


def test_one_round_has_a_speedup_without_an_interval_and_the_replay_has_none(summary):
    (entry,) = [entry for entry in summary["speedups"] if entry["client"] != "raw"]
    assert entry["client"] == "confluent-kafka linger=5"
    assert (entry["speedup"], entry["low"], entry["high"], entry["rounds"]) == (1.0, None, None, 1)


def test_latency_ratios_are_paired_like_rates_over_the_rounds_with_enough_samples(summary):
    """Round 0 has the same 4,000 latencies on both sides; rounds 1 and 2 have 400 of 1 ms, and of 2 ms.

    So p50 and p99, which needs two samples beyond it, have three rounds. A p99.9 needs 2,000 samples: one round.
    """
    (entry,) = [entry for entry in summary["speedups"] if entry["client"] == "raw"]
    logs = [0.0, math.log(2), math.log(2)]
    mean = sum(logs) / 3
    half = 4.30265273 * math.sqrt(sum((log - mean) ** 2 for log in logs) / 2 / 3)
    p50 = entry["p50"]
    expected = (math.exp(mean), math.exp(mean - half), math.exp(mean + half))
    assert (p50["ratio"], p50["low"], p50["high"]) == pytest.approx(expected, rel=1e-6)
    assert p50["rounds"] == 3
    assert entry["p99"]["rounds"] == 3
    assert entry["p999"] == {"ratio": 1.0, "low": None, "high": None, "rounds": 1, "corrected_p": None}


def test_the_share_of_commits_on_the_event_loop_is_known_and_shown(figures):
    comparison = Comparison(figures)
    shares = {cell.mode: commit.on_loop_share for cell, commit in comparison.figures.commits.items()}
    assert shares == {"classic": 0.5, "pipelined": 0.5}
    shown = commits(comparison)
    assert "The share of commits on the event loop under these loads is 50% in classic, 50% in pipelined." in shown
    assert "On the loop" in shown


def test_every_round_of_a_cell_has_its_rate_and_its_percentiles(summary):
    rounds = cell_of(summary, "raw", "pipelined")["rounds"]
    assert [(each["round"], each["side"]) for each in rounds] == [(0, 1), (1, 1), (2, 1)]
    assert [each["p50_ms"] for each in rounds] == [2.0005, 2.0, 2.0]
    assert rounds[0]["p99_ms"] == pytest.approx(interpolated(list(range(1, 4001)), 0.99) / 1000, rel=1e-8)
    assert [each["p99_ms"] for each in rounds[1:]] == [2.0, 2.0]
    assert [each["p999_ms"] for each in rounds[1:]] == [None, None]
    seconds = 399 * PAIRS[1][1] * 1e-6 + 2000e-6 + 500e-9
    assert rounds[1]["requests_per_s"] == pytest.approx(400 / seconds, rel=1e-8)


def test_summary_has_exactly_the_declared_names(summary):
    names = [
        "schema",
        "machine",
        "runs",
        "quality",
        "decisions",
        "cells",
        "ablation",
        "speedups",
        "equal_load",
        "stages",
        "self",
    ]
    assert list(summary) == [*names, "verdict"]
    assert summary["schema"] == 1
    assert summary["machine"]["cpu"] == "synthetic"
    names = ["mode", "client", "in_flight", "connections", "commit_delay_ms", "requests", "requests_per_s"]
    names += ["p50_ms", "p99_ms", "p999_ms", "rounds", "order_violations"]
    assert all(list(cell) == names for cell in summary["cells"])
    names = ["in_flight", "connections", "commit_delay_ms", "client", "speedup", "low", "high", "rounds"]
    assert all(list(entry) == [*names, "corrected_p", "p50", "p99", "p999"] for entry in summary["speedups"])
    assert (summary["ablation"], summary["self"]) == ([], None)


def test_stages_of_the_summary_are_the_planted_means_and_the_wait_in_the_socket(summary):
    """The client of the traced runs waits 1 ms. The broker saw 441 us in classic, of which commits are 300."""
    classic, pipelined = summary["stages"]
    assert (classic["mode"], pipelined["mode"]) == SIDES
    parts = {name: part["value"] for name, part in classic["parts_us"].items()}
    assert parts["commit wait"] == pytest.approx(STAGES["CommitWait"] + 100)
    assert parts["order wait"] == pytest.approx(STAGES["ResponseOrderWait"] + 100)
    assert {part["low"] for part in classic["parts_us"].values()} == {None}, "one traced round has no interval"
    inside = sum(value for name, value in parts.items() if name != "socket wait")
    assert parts["socket wait"] == pytest.approx(max(0, 1000 - inside))


def test_no_planted_violation_means_none_found(summary):
    assert [cell["order_violations"] for cell in summary["cells"]] == [0] * 6


def test_verdict_speaks_of_ordinary_clients_first_and_of_the_replay_and_the_order(summary):
    verdict, undecided = summary["verdict"], "not decided. Not decided (a gain is neither proven nor excluded)"
    assert verdict.startswith(f"confluent-kafka, linger 5 ms: {undecided}: 16 producers (too few rounds).")
    assert f"Replayed events: {undecided}: the recorded pace (too few rounds). p99: classic 4.00 ms, pip" in verdict
    assert "No mode was compared with itself (A/A)" in verdict
    assert "Order: no violation in 9,000 answers" not in verdict  # confluent-kafka shows no correlation ids
    assert "Order: no violation in 13,800 answers seen by clients and 200 requests stamped by the broker." in verdict


def test_stage_percentiles_are_those_planted(planted, spark):
    rows = {(row["mode"], row["stage"]): row for row in stage_latency(load_run(planted, spark)).collect()}
    assert len(rows) == 18
    for side, mode in enumerate(("classic", "pipelined")):
        for stage, value in STAGES.items():
            row = rows[mode, stage]
            assert row["p50_us"] == value * (1 + side)
            assert row["mean_us"] == pytest.approx(value * (1 + side) + 100)
            assert row["requests"] == 100
        total = sum(STAGES[stage] for stage in ("RequestQueue", "Local", "Remote", "ResponseQueue", "ResponseSend"))
        assert rows[mode, "Total"]["p50_us"] == total * (1 + side)


def test_commits_and_their_sizes_are_those_planted(figures):
    (commits, same) = figures.commits.values()
    assert commits == same
    assert commits.sizes == {1: 2, 4: 1, 64: 1}
    assert (commits.entries_mean, commits.entries_quantile(0.5), commits.entries_quantile(1.0)) == (17.5, 1, 64)
    assert (commits.bytes, commits.commit_p50_us, commits.sync_p50_us) == (7000, 350.0, 300.0)
    errors = {run.cell.load.client: run.errors for run in figures.runs}
    assert errors == {"raw": 0, "replay": 0, "confluent-kafka linger=5": 1}


def test_traces_without_a_table_or_with_a_wrong_column_are_refused(planted, spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(TraceError, match="no traces"):
        load_run(tmp_path, spark)
    (tmp_path / "traces").mkdir()
    for table in (planted / "traces").iterdir():
        (tmp_path / "traces" / table.name).symlink_to(table)
    (tmp_path / "traces/commits").unlink()
    (tmp_path / "traces/commits").mkdir()
    with pytest.raises(TraceError, match="commits has no Parquet file"):
        report(tmp_path, spark)
    pq.write_table(pa.table({"run": pa.array([1], pa.int64())}), tmp_path / "traces/commits/part.parquet")
    with pytest.raises(TraceError, match="column run is bigint, not int"):
        report(tmp_path, spark)
