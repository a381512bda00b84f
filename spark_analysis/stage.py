"""Where the time of a request goes: Kafka's formulas, and the two waits that Kafka does not measure.

Rules: durations are whole microseconds (bigint: Spark's exact percentile is twenty times faster on them than on
doubles), clamped at 0 as Kafka does. They come from traced runs and from Produce requests only; a long-polling Fetch
waits because it was asked to.

    RequestQueue      = dequeued - received
    Local             = handled - dequeued
    Remote            = completed - handled       CommitWait        = durable - submitted
    ResponseQueue     = send_started - completed  ResponseOrderWait = released - completed
    ResponseSend      = sent - send_started
    Total             = sent - received

CommitWait lies inside Remote, ResponseOrderWait inside ResponseQueue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.tables import PRODUCE_API

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

STAGES: Final[dict[str, tuple[str, str]]] = {
    "RequestQueue": ("received_ns", "dequeued_ns"),
    "Local": ("dequeued_ns", "handled_ns"),
    "Remote": ("handled_ns", "completed_ns"),
    "CommitWait": ("submitted_ns", "durable_ns"),
    "ResponseOrderWait": ("completed_ns", "released_ns"),
    "ResponseQueue": ("completed_ns", "send_started_ns"),
    "ResponseSend": ("send_started_ns", "sent_ns"),
    "Total": ("received_ns", "sent_ns"),
}
QUANTILES: Final = (0.5, 0.99, 0.999)
CELL_COLUMNS: Final = ("mode", "client", "connections", "in_flight", "commit_delay_ms", "variant")


def microseconds(began: str, ended: str) -> Column:
    """The whole microseconds between two stamps, at least 0; null where a stamp is."""
    return f.expr(f"greatest(0L, ({ended} - {began}) div 1000)")


def stage_latency(run: TraceRun, *, by: tuple[str, ...] = ("mode",)) -> DataFrame:
    """Percentiles of every stage over the Produce requests of traced runs.

    Args:
        run: an opened experiment.
        by: columns of `runs` to group by; the whole cell is `stage.CELL_COLUMNS`.

    Returns:
        the grouping columns, stage, requests, mean_us, p50_us, p99_us, p999_us.
    """
    runs = run.runs.where("traced").select("run", *by)
    durations = [microseconds(*ends).alias(stage) for stage, ends in STAGES.items()]
    requests = run.requests.where(f.col("api") == PRODUCE_API).select("run", *durations)
    quantiles = f.array(*[f.lit(quantile) for quantile in QUANTILES])
    stages = [
        f.struct(
            f.lit(stage).alias("stage"),
            f.count(stage).alias("requests"),
            f.avg(stage).alias("mean_us"),
            f.percentile(f.col(stage), quantiles).alias("values"),
        )
        for stage in STAGES
    ]
    wide = requests.join(f.broadcast(runs), "run").groupBy(*by).agg(f.array(*stages).alias("stages"))
    long = wide.select(*by, f.explode("stages").alias("s")).select(*by, "s.*")
    named = [f.col("values")[place].alias(name) for place, name in enumerate(("p50_us", "p99_us", "p999_us"))]
    return long.select(*by, "stage", "requests", "mean_us", *named)
