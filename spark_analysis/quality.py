"""Plausibility of the rows: stamps in the wrong order, unanswered requests, errors.

Nothing is repaired. All other queries count a negative duration as 0, like Kafka. This query reports the number of
these rows, and how far a clock went back.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.tables import REQUEST_STAMPS, STAGES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

_COMMITTED: Final = STAGES["CommitWait"]
# Stamps that follow each other in every mode. The stamps of the commit are a pair of their own: a handler that waits
# for its commit takes its own stamps after them.
_PAIRS: Final = (*pairwise(stamp for stamp in REQUEST_STAMPS if stamp not in _COMMITTED), _COMMITTED)


def trace_quality(run: TraceRun) -> DataFrame:
    """Return a row per run and table (`client`, and `requests` if the broker was traced).

    Returns:
        run, table, rows, backwards (rows with a stamp before its predecessor).
        step_us (the largest step back, microseconds).
        unanswered (without an answer, or with one that was not sent).
        errors (answers with an error code; null in `requests`).
    """
    client = run.client.select(
        "run", _back("sent_ns", "answered_ns").alias("back"), f.col("answered_ns").isNull().alias("open"), "error"
    )
    backs = [_back(*pair) for pair in _PAIRS]
    requests = run.requests.select("run", f.greatest(*backs).alias("back"), f.col("sent_ns").isNull().alias("open"))
    requests = requests.withColumn("error", f.lit(None).cast("int"))
    return _counted(client, "client").union(_counted(requests, "requests"))


def _back(began: str, ended: str) -> Column:
    return f.coalesce(f.col(began) - f.col(ended), f.lit(0))


def _counted(rows: DataFrame, table: str) -> DataFrame:
    errors = f.count(f.when(f.col("error") != 0, 1)) if table == "client" else f.lit(None).cast("bigint")
    sums = rows.groupBy("run").agg(
        f.count("*").alias("rows"),
        f.count(f.when(f.col("back") > 0, 1)).alias("backwards"),
        (f.greatest(f.lit(0), f.max("back")) / 1000).alias("step_us"),
        f.count(f.when(f.col("open"), 1)).alias("unanswered"),
        errors.alias("errors"),
    )
    return sums.select("run", f.lit(table).alias("table"), "rows", "backwards", "step_us", "unanswered", "errors")
