"""Spark's work for a report is bounded: its jobs, its scans, and the files that a job on some runs opens."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from spark_analysis import load_run, stage_latency
from spark_analysis.figures import report_queries
from spark_analysis.tables import RING_TABLES
from spark_analysis.together import shared, together

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
JOBS_MAX = 25
SCANS_MAX = 3


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan()


def elements(sequence):
    """Return the elements of a Scala sequence."""
    return [sequence.apply(place) for place in range(sequence.size())]


def scans(plan):
    """Return the tables that a plan reads from files, one entry per scan. A cached table is read when it is first
    used.
    """
    found, kept = [], set()
    for leaf in elements(plan.collectLeaves()):
        kind = leaf.getClass().getSimpleName()
        if kind == "FileSourceScanExec":
            found.append(leaf.relation().location().rootPaths().head().getName())
        elif kind == "InMemoryTableScanExec":
            kept.update(scans(leaf.relation().cachedPlan()))
    return [*found, *kept]


def test_a_report_takes_a_bounded_number_of_jobs(reported):
    assert 0 < reported.jobs <= JOBS_MAX


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_requests_are_read_a_bounded_number_of_times(is_kept, converted, spark, monkeypatch):
    if not is_kept:
        monkeypatch.setattr("spark_analysis.together.KEPT_BYTES_MAX", 0)
    with shared(load_run(converted, spark)) as run:
        found = Counter(scans(plan_of(together(report_queries(run, run.runs.collect())))))
    assert found.keys() == {"runs", "requests", "commits", "client", "appends", "mutes", "queues"}
    assert (found["requests"] <= SCANS_MAX) == is_kept


def test_a_job_on_some_runs_opens_only_their_files(converted, spark):
    run = load_run(converted, spark)
    for table in set(RING_TABLES) - {"store"}:  # these runs had none
        plan = plan_of(getattr(run, table).where("run = 8")).toString()
        (filters,) = re.findall(r"PartitionFilters: \[(.*?)\], ", plan)
        assert "run" in filters, table
    plan = plan_of(stage_latency(run).where("mode = 'classic'")).toString()
    assert "dynamicpruning" in plan or "PartitionFilters" in plan


def test_no_table_stays_cached_after_a_report(reported, spark):
    assert not reported.is_anything_kept
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
