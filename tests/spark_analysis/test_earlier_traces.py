"""What a sweep varies keeps cells apart; traces that were written before there were sweeps are still read."""

import json

import pyarrow.parquet as pq
import pytest

from spark_analysis.analyse import report
from spark_analysis.convert import convert
from spark_analysis.run import load_run
from spark_analysis.stage import stage_latency
from spark_analysis.tables import LATER_COLUMNS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark leaves them to the collector
]


def write_rounds(synthetic, folder, columns_of_gaps):
    """Two rounds of runs, each of them with these columns and so many microseconds between its requests."""
    number = 0
    for place in range(2):
        for columns, gap_us in columns_of_gaps:
            number += 1
            run = synthetic.RawRun(folder / "raw", number, round=place, **columns)
            synthetic.steady(run, [0] * 1001, gap_us=gap_us)
            run.write()


def test_variants_of_a_load_are_cells_and_ratios_of_their_own(synthetic, tmp_path, spark):
    sides = [{"mode": "classic", "side": 0}, {"mode": "pipelined", "side": 1}]
    small, large = {"variant": ""}, {"variant": "record_size=1000", "factors": {"schema": 1, "record_bytes": 1000}}
    gaps = [(small, 100), (small, 50), (large, 400), (large, 100)]
    write_rounds(synthetic, tmp_path, [({**sides[i % 2], **columns}, gap) for i, (columns, gap) in enumerate(gaps)])
    convert(tmp_path, spark)
    verdict = report(tmp_path, spark)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [cell.get("variant") for cell in summary["cells"]] == [None, None, *["record_size=1000"] * 2]
    speedups = {entry.get("variant"): entry["speedup"] for entry in summary["speedups"]}
    assert speedups == {None: pytest.approx(2, rel=1e-4), "record_size=1000": pytest.approx(4, rel=1e-4)}
    assert "1 connection x 1 in flight, record_size=1000" in verdict
    (factors,) = {row["factors"] for row in load_run(tmp_path, spark).runs.where("variant != ''").collect()}
    assert json.loads(factors) == {"schema": 1, "record_bytes": 1000}


def test_traces_without_the_later_columns_have_what_stands_for_them(synthetic, tmp_path, spark):
    write_rounds(synthetic, tmp_path, [({"mode": "classic"}, 100)])
    convert(tmp_path, spark)
    (path,) = (tmp_path / "traces/runs").glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(list(LATER_COLUMNS)), path)
    rows = load_run(tmp_path, spark).runs.collect()
    assert rows
    assert all({name: row[name] for name in LATER_COLUMNS} == LATER_COLUMNS for row in rows)
    assert "No mode was compared with itself" in report(tmp_path, spark)


WAYS = {
    "RequestQueue": 10,
    "Local": 30,
    "LaterSteps": 20,
    "Remote": 100,
    "CommitWait": 5,
    "ResponseOrderWait": 1,
    "ResponseQueue": 2,
    "ResponseSend": 3,
}


def test_later_steps_are_local_and_in_tables_of_schema_1_remote(synthetic, tmp_path, spark):
    run = synthetic.RawRun(tmp_path / "raw", 1, traced=True)
    synthetic.traced_request(run, 0, 0, synthetic.START_NS, WAYS)
    run.write()
    convert(tmp_path, spark)
    (path,) = (tmp_path / "traces/requests/run=1").glob("*.parquet")

    def stages():
        return {row["stage"]: row["mean_us"] for row in stage_latency(load_run(tmp_path, spark)).collect()}

    assert stages() == {**WAYS, "Total": 145}
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["decided_ns"]), path)
    assert stages() == {**WAYS, "Local": 10, "LaterSteps": 0, "Remote": 120, "Total": 145}


def test_the_summary_has_every_axis_over_classic_with_its_interval(synthetic, tmp_path, spark):
    grid = [({"mode": "classic", "side": 0}, 100), ({"mode": "pipelined", "side": 1}, 10)]
    axes = [("classic", 200), ("mute-off", 100), ("own-queues", 200), ("both", 20), ("pipelined", 25)]
    ablation = [({"mode": mode, "side": 1, "experiment": "ablation"}, gap_us) for mode, gap_us in axes]
    write_rounds(synthetic, tmp_path, grid + ablation)
    convert(tmp_path, spark)
    report(tmp_path, spark)
    summary = json.loads((tmp_path / "summary.json").read_text())
    over = {entry["mode"]: entry for entry in summary["over_classic"]}
    expected = {"mute-off": 2, "own-queues": 1, "both": 10, "pipelined": 8}
    assert {mode: round(entry["speedup"], 2) for mode, entry in over.items()} == expected
    assert all(entry["low"] <= entry["speedup"] <= entry["high"] and entry["rounds"] == 2 for entry in over.values())
