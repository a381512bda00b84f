"""Of a hundred experiments that compare a mode with itself, 90 to 99 intervals contain 1."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_analysis import load_run
from spark_analysis.figures import Figures, _run
from spark_analysis.latency import client_runs
from spark_analysis.ring import arrow_schema
from spark_analysis.summary import Comparison
from spark_analysis.tables import TABLES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

EXPERIMENTS = 100
ROUNDS = 7


def plant(traces):
    """Write experiments with different numbers of connections; both sides have the same rate, with noise of 5 %."""
    drawn = random.Random(95)
    rows = {table: [] for table in TABLES}
    for experiment in range(EXPERIMENTS):
        for place in range(ROUNDS):
            drift = drawn.lognormvariate(0, 0.3)  # of the machine: the same for both sides of a round
            for side in (0, 1):
                number = len(rows["runs"]) + 1
                described = dict.fromkeys(TABLES["runs"])
                described |= {"run": number, "round": place, "traced": False, "mode": "pipelined", "side": side}
                described |= {"client": "raw", "connections": experiment + 1, "in_flight": 1, "commit_delay_ms": 0.0}
                rows["runs"].append(described)
                last_ns = int(1e9 * drift * drawn.lognormvariate(0, 0.05))
                answer = dict.fromkeys(TABLES["client"])
                answer |= {"run": number, "sent_ns": 0, "answered_ns": last_ns, "measured": True}
                rows["client"].append(answer)
    for table, values in rows.items():
        (traces / table).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(values, arrow_schema(table)), traces / table / "part.parquet")


def test_the_interval_of_equal_sides_contains_1_at_its_confidence(spark, tmp_path):
    plant(tmp_path / "traces")
    run = load_run(tmp_path, spark)
    totals = {row["run"]: row for row in client_runs(run).collect()}
    runs = tuple(_run(row, totals[row["run"]]) for row in run.runs.collect())
    ratios = Comparison(Figures(runs=runs, curves={}, stages={}, audits=(), commits={}, waits={}, buckets=())).speedups
    assert len(ratios) == EXPERIMENTS
    assert all(ratio.rounds == ROUNDS for ratio in ratios.values())
    held = sum(ratio.low <= 1 <= ratio.high for ratio in ratios.values())
    assert 90 <= held <= 99
