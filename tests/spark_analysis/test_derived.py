"""The derived tables contain the results of the queries and of the summary, and an empty one has its columns."""

from __future__ import annotations

import json

import pytest

from spark_analysis import latency_by_round, load_run, order_violations, ordering_audit, stage_latency
from spark_analysis.analyse import report
from spark_analysis.convert import convert
from tests.spark_analysis.broken_trace import REQUESTS, describe, write_run
from tests.stages.broken import BrokenResponseOrder

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
TABLES = ["latency_by_round", "order_violations", "speedups", "stage_latency"]


@pytest.fixture(scope="module")
def reported(synthetic, spark, tmp_path_factory):
    """Three rounds of two sides, and a traced run with a violation of order and a lost row."""
    directory = tmp_path_factory.mktemp("derived")
    for place in range(3):
        for side, mode in enumerate(("classic", "pipelined")):
            run = synthetic.RawRun(directory / "raw", 1 + 2 * place + side, round=place, side=side, mode=mode)
            synthetic.steady(run, [500 + place] * 40, gap_us=100 - 50 * side)
            run.write()
    folder = directory / "raw/run-00007"
    folder.mkdir()
    write_run(folder, BrokenResponseOrder)
    describe(folder, 7, in_flight=REQUESTS, lost_rows=1)
    convert(directory, spark)
    report(directory, spark)
    return directory


def rows_of(frame):
    """Return values to nine digits, because Spark and Python divide in another order."""
    return sorted(({name: rounded(value) for name, value in row.asDict().items()} for row in frame.collect()), key=str)


def rounded(value):
    return float(f"{value:.9g}") if isinstance(value, float) else value


@pytest.fixture
def table(reported, spark):
    return lambda name: spark.read.parquet(str(reported / "derived" / name))


def test_derived_tables_equal_the_queries_of_the_same_names(reported, spark, table):
    assert sorted(path.name for path in (reported / "derived").iterdir()) == TABLES
    run = load_run(reported, spark)
    jobs = {
        "stage_latency": stage_latency(run, by=("run",)),
        "latency_by_round": latency_by_round(run),
        "order_violations": order_violations(run),
    }
    for name, job in jobs.items():
        assert set(job.columns) <= set(table(name).columns)
        assert rows_of(table(name).select(*job.columns)) == rows_of(job) != [], name


def test_a_cell_counts_the_violations_of_both_audits_and_the_page_calls_them_incomplete(reported, spark):
    found = {row["audit"]: row for row in ordering_audit(load_run(reported, spark)).where("run = 7").collect()}
    assert all(row["violations"] and not row["complete"] for row in found.values())
    total = found["broker"]["violations"] + found["client"]["violations"]
    summary = json.loads((reported / "summary.json").read_text(encoding="utf-8"))
    counted = {cell["in_flight"]: cell["order_violations"] for cell in summary["cells"]}
    assert counted[REQUESTS] == sum(counted.values()) == total
    assert f"Order: {total} violations in" in summary["verdict"]
    assert "Trace rows were lost, so the audit is incomplete." in summary["verdict"]
    page = (reported / "report.html").read_text(encoding="utf-8")
    assert "the audit is incomplete" in page
    assert '<div class="tile no">' in page


def test_speedups_are_those_of_the_summary(reported, table):
    said = json.loads((reported / "summary.json").read_text(encoding="utf-8"))["speedups"]
    (row,), (entry,) = table("speedups").collect(), said
    for name in ("client", "connections", "in_flight", "rounds"):
        assert row[name] == entry[name]
    for name in ("speedup", "low", "high"):
        assert row[name] == pytest.approx(entry[name], rel=1e-8)


def test_an_empty_table_has_its_columns_and_a_report_replaces_all_tables(synthetic, spark, tmp_path):
    run = synthetic.RawRun(tmp_path / "raw", 1)
    synthetic.steady(run, [500] * 40, gap_us=100)
    run.write()
    (tmp_path / "derived/old").mkdir(parents=True)
    convert(tmp_path, spark)
    report(tmp_path, spark)
    assert sorted(path.name for path in (tmp_path / "derived").iterdir()) == TABLES
    for name in ("stage_latency", "speedups", "order_violations"):
        frame = spark.read.parquet(str(tmp_path / "derived" / name))
        assert frame.columns
        assert frame.count() == 0, name
