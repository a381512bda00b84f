"""The violations of order, one row each; `audit` counts them.

A row names the broken rule, the connection and sequence, and the two values that contradict each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

_NO_TOPIC = "cast(null as string) as topic", "cast(null as int) as partition"
_COLUMNS = ("run", "audit", "rule", "connection", "sequence", "topic", "partition", "before", "found", "violations")


def order_violations(run: TraceRun) -> DataFrame:
    """Return the violations of order in all runs, in no particular order.

    The rules, with the unit of `before` and `found`:

    * `released`: a response was released before that of an earlier request of its connection (nanoseconds).
    * `repeated`, `missing`: a sequence occurs again, or sequences before it are missing (sequences).
    * `log`: the offset of a batch is not above the connection's previous one in this partition (offsets).
    * `received`: the client received a correlation id that is not above the previous one (correlation ids).
    * `unanswered`: ids between two received ones are missing (correlation ids).

    In a run with lost rows, `missing` and `unanswered` prove nothing, and are left out.

    Returns:
        run, audit (`broker` or `client`), rule, connection, sequence, topic, partition, before, found, violations (the
        number that this row counts for: 1, or the number of missing ones).
    """
    lost = run.runs.select("run", (f.coalesce(f.col("lost_rows"), f.lit(0)) > 0).alias("lost"))
    found = _arrivals(run).union(_logged(run)).union(_received(run)).union(_unanswered(run))
    certain = ~f.col("lost") | ~f.col("rule").isin("missing", "unanswered")
    return found.join(f.broadcast(lost), "run").where(certain).select(*_COLUMNS)


def _named(rows: DataFrame, audit: str, rule: str, before: str, found: str, *, count: str = "1") -> DataFrame:
    of_log = ("topic", "partition") if "topic" in rows.columns else _NO_TOPIC
    named = rows.selectExpr(
        "run",
        f"'{audit}' as audit",
        f"'{rule}' as rule",
        "connection",
        "sequence",
        *of_log,
        f"cast({before} as bigint) as before",
        f"cast({found} as bigint) as found",
        f"cast({count} as bigint) as violations",
    )
    return named.select(*_COLUMNS)


def _arrivals(run: TraceRun) -> DataFrame:
    arrival = Window.partitionBy("run", "connection").orderBy("sequence")
    earlier = arrival.rowsBetween(Window.unboundedPreceding, -1)
    rows = (
        run.requests.select("run", "connection", "sequence", "released_ns")
        .withColumn("sequence_before", f.lag("sequence", 1, -1).over(arrival))
        .withColumn("released_before", f.last("released_ns", ignorenulls=True).over(earlier))
        .where("released_ns < released_before or sequence <> sequence_before + 1")
    )
    step = f.col("sequence") - f.col("sequence_before")
    one = f.lit(1).cast("bigint")
    broken = [
        _broken(f.col("released_ns") < f.col("released_before"), "released", "released_before", "released_ns", one),
        _broken(step == 0, "repeated", "sequence_before", "sequence", one),
        _broken(step > 1, "missing", "sequence_before", "sequence", step - 1),
    ]
    each = rows.withColumn("broken", f.explode(f.array_compact(f.array(*broken))))
    values = ("broken.before", "broken.found", "broken.violations")
    return each.selectExpr("run", "'broker' as audit", "broken.rule", "connection", "sequence", *_NO_TOPIC, *values)


def _broken(condition: Column, rule: str, before: str, found: str, count: Column) -> Column:
    values = f.struct(
        f.lit(rule).alias("rule"), f.col(before).alias("before"), f.col(found).alias("found"), count.alias("violations")
    )
    return f.when(condition, values)


def _logged(run: TraceRun) -> DataFrame:
    arrival = Window.partitionBy("run", "connection", "topic", "partition").orderBy("sequence", "base_offset")
    rows = run.appends.where("connection is not null and sequence is not null and base_offset is not null")
    rows = rows.withColumn("offset_before", f.lag("last_offset", 1).over(arrival))
    return _named(rows.where("base_offset <= offset_before"), "broker", "log", "offset_before", "base_offset")


def _answers(run: TraceRun, *order: str) -> DataFrame:
    receipt = Window.partitionBy("run", "connection").orderBy(*order)
    rows = run.client.where("answered_ns is not null and correlation_id is not null")
    return rows.withColumn("id_before", f.lag("correlation_id", 1).over(receipt))


def _received(run: TraceRun) -> DataFrame:
    rows = _answers(run, "sequence").where("correlation_id <= id_before")
    return _named(rows, "client", "received", "id_before", "correlation_id")


def _unanswered(run: TraceRun) -> DataFrame:
    rows = _answers(run, "correlation_id").where("correlation_id > id_before + 1")
    count = "correlation_id - id_before - 1"
    return _named(rows, "client", "unanswered", "id_before", "correlation_id", count=count)
