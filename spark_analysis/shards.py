"""The balance of requests over the request queues (shards), and its effect on latency.

Unused queues count. Their number is the factor `queues` of the run, else it is taken from the greatest queue seen.
Shares are of requests, not of bytes, because a handler takes requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from spark_analysis.stage import microseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_analysis.run import TraceRun


def shard_latency(run: TraceRun) -> DataFrame:
    """Return a row per request queue of each traced run.

    Returns:
        run, queue, connections, requests, queue_p50_us, queue_p99_us (RequestQueue), p50_us, p99_us (Total);
        microseconds. All APIs count.
    """
    ends = f.array(f.lit(0.5), f.lit(0.99))
    found = (
        run.requests.where("queue is not null")
        .select(
            "run",
            "queue",
            "connection",
            microseconds("received_ns", "dequeued_ns").alias("waited_us"),
            microseconds("received_ns", "sent_ns").alias("total_us"),
        )
        .groupBy("run", "queue")
        .agg(
            f.count_distinct("connection").alias("connections"),
            f.count("*").alias("requests"),
            f.percentile("waited_us", ends).alias("waited"),
            f.percentile("total_us", ends).alias("total"),
        )
    )
    named = [f.col("waited")[0].alias("queue_p50_us"), f.col("waited")[1].alias("queue_p99_us")]
    named += [f.col("total")[0].alias("p50_us"), f.col("total")[1].alias("p99_us")]
    return found.select("run", "queue", "connections", "requests", *named)


def queue_imbalance(run: TraceRun) -> DataFrame:
    """Return the imbalance of each traced run's queues, and the latency of the busiest one.

    The Gini coefficient is 0 if all queues received the same number of requests. It is (n - 1) / n if one of n queues
    received all of them.

    Returns:
        run, queues, used_queues, requests, most_over_mean (requests of the busiest queue over the mean), gini,
        busiest_queue, busiest_p99_us, others_p99_us (greatest p99 of Total among the other queues; null if there are
        none); microseconds.
    """
    factor = f.get_json_object("factors", "$.queues").cast("int")
    declared = run.runs.select("run", factor.alias("declared"))
    by_load = Window.partitionBy("run").orderBy("requests", f.col("queue").desc())
    # The Gini coefficient is computed from the ranks of the queues by load.
    shards = shard_latency(run).withColumn("rank", f.row_number().over(by_load))
    shards = shards.withColumn("used", f.count("*").over(Window.partitionBy("run")))
    is_busiest = f.col("rank") == f.col("used")
    sums = shards.groupBy("run").agg(
        f.max("used").alias("used_queues"),
        (f.max("queue") + 1).alias("seen"),
        f.sum("requests").alias("requests"),
        f.max("requests").alias("most"),
        f.sum(f.col("requests") * f.col("rank")).alias("ranked"),
        f.max(f.when(is_busiest, f.col("queue"))).alias("busiest_queue"),
        f.max(f.when(is_busiest, f.col("p99_us"))).alias("busiest_p99_us"),
        f.max(f.when(~is_busiest, f.col("p99_us"))).alias("others_p99_us"),
    )
    known = sums.join(f.broadcast(declared), "run").withColumn("queues", f.greatest("declared", "seen").cast("int"))
    # Unused queues come first in the order of load, so they only shift the ranks of the others.
    ranks = f.col("ranked") + (f.col("queues") - f.col("used_queues")) * f.col("requests")
    gini = 2 * ranks / (f.col("queues") * f.col("requests")) - (f.col("queues") + 1) / f.col("queues")
    return known.select(
        "run",
        "queues",
        "used_queues",
        "requests",
        (f.col("most") * f.col("queues") / f.col("requests")).alias("most_over_mean"),
        gini.alias("gini"),
        "busiest_queue",
        "busiest_p99_us",
        "others_p99_us",
    )
