"""A few consecutive requests of one connection, stamp by stamp, for the drawing of lanes.

The query shows the busiest connection of each run, around the request that waited longest for earlier responses. If
none waited, it shows the middle of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from spark_analysis.tables import PRODUCE_API, REQUEST_STAMPS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_analysis.run import TraceRun

REQUESTS: Final = 24
WAIT_WORTH_SEEING_NS: Final = 100_000
"""Step in which waits for earlier responses are compared. A shorter wait would not be visible in the drawing."""


def request_lanes(run: TraceRun, *, requests: int = REQUESTS) -> DataFrame:
    """Return consecutive Produce requests of the busiest connection of each traced run.

    Args:
        requests: the largest number of requests per run.

    Returns:
        run, connection, sequence, queue, depth, commit and the stamps of `requests` (nanoseconds).
    """
    produced = run.requests.where((f.col("api") == PRODUCE_API) & f.col("sent_ns").isNotNull())
    connections = produced.groupBy("run", "connection").agg(
        f.count("*").alias("count"), f.min("sequence").alias("first"), f.max("sequence").alias("last")
    )
    busiest = Window.partitionBy("run").orderBy(f.col("count").desc(), "connection")
    chosen = connections.withColumn("place", f.row_number().over(busiest)).where("place = 1").drop("count", "place")
    rows = produced.join(f.broadcast(chosen), ["run", "connection"])
    waited = f.floor((f.col("released_ns") - f.col("completed_ns")) / WAIT_WORTH_SEEING_NS)
    beside_middle = f.abs(f.col("sequence") * 2 - f.col("first") - f.col("last"))
    # Among equal waits the request nearest to the middle of the run wins, so that a run without waits shows its middle.
    centre = f.max_by("sequence", f.struct(waited, -beside_middle)).alias("centre")
    centres = rows.groupBy("run", "first", "last").agg(centre)
    begin = f.greatest("first", f.least(f.col("centre") - requests // 2, f.col("last") - requests + 1))
    rows = rows.join(f.broadcast(centres.select("run", begin.alias("begin"))), "run")
    rows = rows.where((f.col("sequence") >= f.col("begin")) & (f.col("sequence") < f.col("begin") + requests))
    return rows.select("run", "connection", "sequence", "queue", "depth", "commit", *REQUEST_STAMPS)
