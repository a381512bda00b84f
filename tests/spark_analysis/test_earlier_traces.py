"""Traces of earlier versions, which lack columns, are still read."""

import shutil

import pyarrow.parquet as pq
import pytest

from spark_analysis.convert import convert
from spark_analysis.run import load_run
from spark_analysis.stage import stage_latency
from spark_analysis.tables import LATER_COLUMNS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]


def test_traces_without_later_columns_get_defaults(small, tmp_path, spark):
    shutil.copytree(small / "traces", tmp_path / "traces")
    (path,) = (tmp_path / "traces/runs").glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(list(LATER_COLUMNS)), path)
    rows = load_run(tmp_path, spark).runs.collect()
    assert rows
    assert all({name: row[name] for name in LATER_COLUMNS} == LATER_COLUMNS for row in rows)


def test_commits_without_their_place_of_execution_are_read(synthetic, tmp_path, spark, monkeypatch):
    columns = [column for column in synthetic.COLUMNS["commits"] if column[0] != "is_on_loop"]
    monkeypatch.setitem(synthetic.COLUMNS, "commits", columns)
    run = synthetic.RawRun(tmp_path / "raw", 1, traced=True)
    stamps = dict.fromkeys(("started_ns", "written_ns", "durable_ns", "completed_ns"), 5)
    run.add("commits", commit=1, entries=1, bytes=1, **stamps)
    run.write()
    convert(tmp_path, spark)
    (row,) = load_run(tmp_path, spark).commits.collect()
    assert (row["commit"], row["is_on_loop"]) == (1, None)
    (path,) = (tmp_path / "traces/commits/run=1").glob("*.parquet")
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["is_on_loop"]), path)
    (row,) = load_run(tmp_path, spark).commits.collect()
    assert row["is_on_loop"] is None


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
