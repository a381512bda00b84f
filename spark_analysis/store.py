"""Requests of the brokers to their object store under load, one row per traced run.

A request counts in the run in which it ended, between the first request that the broker received and the last response
that it sent. So the broker's startup does not count, but requests of its archive and its lease do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.stage import microseconds
from spark_analysis.tables import PRODUCE_API

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

PUTS: Final = ("create", "replace", "upload", "list")
"""Operations that are billed as a PUT. A DELETE is free."""
GETS: Final = ("read", "read_end")
_STORED: Final = "create"


def store_requests(run: TraceRun) -> DataFrame:
    """Return counts, bytes and times of the requests to a store.

    Returns:
        run, puts, put_bytes (of all operations that are billed as a PUT), gets, window_us.
        unsure (operations whose effect is unknown), failed (other operations without an answer).
        put_p50_us, put_p99_us (of creations: objects of the journal, and of the archive's log).
        written_bytes (of commits that became durable), produced (Produce requests that wrote).
    """
    spans = run.requests.groupBy("run").agg(
        f.min("received_ns").alias("from_ns"),
        f.max("sent_ns").alias("to_ns"),
        f.count(f.when((f.col("api") == PRODUCE_API) & f.col("commit").isNotNull(), 1)).alias("produced"),
    )
    asked = _within(run.store, spans, "ended_ns").groupBy("run")
    times = f.percentile(
        f.when(f.col("operation") == _STORED, microseconds("began_ns", "ended_ns")), f.array(f.lit(0.5), f.lit(0.99))
    )
    counted = asked.agg(
        _sum_where(f.col("operation").isin(*PUTS), "requests").alias("puts"),
        _sum_where(f.col("operation").isin(*GETS), "requests").alias("gets"),
        f.count(f.when(f.col("outcome") == "unsure", 1)).alias("unsure"),
        f.count(f.when(f.col("outcome").isin("unavailable", "failed"), 1)).alias("failed"),
        _sum_where(f.col("operation").isin(*PUTS), "sent_bytes").alias("put_bytes"),
        times.alias("times"),
    )
    written = _within(run.commits, spans, "durable_ns").groupBy("run").agg(f.sum("bytes").alias("written_bytes"))
    return (
        counted.join(f.broadcast(spans), "run")
        .join(f.broadcast(written), "run", "left")
        .select(
            "run",
            "puts",
            "gets",
            "unsure",
            "failed",
            "put_bytes",
            f.col("times")[0].alias("put_p50_us"),
            f.col("times")[1].alias("put_p99_us"),
            ((f.col("to_ns") - f.col("from_ns")) / 1000).alias("window_us"),
            f.coalesce("written_bytes", f.lit(0)).alias("written_bytes"),
            "produced",
        )
    )


def _within(rows: DataFrame, spans: DataFrame, stamp: str) -> DataFrame:
    found = rows.join(f.broadcast(spans.select("run", "from_ns", "to_ns")), "run")
    return found.where(f.col(stamp).between(f.col("from_ns"), f.col("to_ns")))


def _sum_where(condition: Column, column: str) -> Column:
    return f.coalesce(f.sum(f.when(condition, f.col(column))), f.lit(0))
