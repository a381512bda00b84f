"""Stage times of requests by Kafka's formulas, and three stages that Kafka does not measure (`tables.STAGES`).

Negative durations count as 0, as in Kafka. Only Produce requests of traced runs count: a Fetch that long-polls waits
because its client requested it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.tables import PRODUCE_API, STAGES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

QUANTILES: Final = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999, "p9999_us": 0.9999}
"""The percentiles of the queries by column name."""
CELL_COLUMNS: Final = (
    "mode",
    "client",
    "connections",
    "in_flight",
    "commit_delay_ms",
    "variant",
    "offered_of",
    "offered_share",
    "offered_per_s",
)


def microseconds(began: str, ended: str) -> Column:
    """Return the whole microseconds between two stamps, at least 0; null if a stamp is null.

    The arguments are SQL expressions in nanoseconds.

    Whole numbers, because Spark's exact percentile is twenty times faster on bigint than on double.
    """
    return f.expr(f"if({ended} < {began}, 0L, ({ended} - {began}) div 1000)")  # `greatest` would ignore null


def percentile_columns(values: str) -> list[Column]:
    """Return the columns of `QUANTILES`, taken from an array column of exact percentiles.

    Args:
        values: the name of the array column.
    """
    return [f.col(values)[place].alias(name) for place, name in enumerate(QUANTILES)]


def quantiles() -> Column:
    return f.array(*[f.lit(quantile) for quantile in QUANTILES.values()])


def stage_latency(run: TraceRun, *, by: tuple[str, ...] = ("mode",)) -> DataFrame:
    """Return exact percentiles of every stage over the Produce requests of traced runs.

    Args:
        by: columns of `runs` to group by; `stage.CELL_COLUMNS` groups by cell.

    Returns:
        the grouping columns, stage, requests, mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us (microseconds).
    """
    runs = run.runs.where("traced").select("run", *by)
    return stage_statistics(stage_durations(run).join(f.broadcast(runs), "run"), by)


def stage_durations(run: TraceRun, *more: str) -> DataFrame:
    """Return a row for each Produce request with the duration of each stage in microseconds.

    The other columns are `run` and the columns `more` of `requests`.
    """
    return durations_of(run.requests, "run", *more)


def durations_of(requests: DataFrame, *more: str) -> DataFrame:
    """Like `stage_durations`, for any data frame with the columns of `requests`."""
    durations = [microseconds(*ends).alias(stage) for stage, ends in STAGES.items()]
    return requests.where(f.col("api") == PRODUCE_API).select(*more, *durations)


def stage_statistics(durations: DataFrame, by: tuple[str, ...], *more: Column) -> DataFrame:
    """Aggregate the result of `stage_durations`, also of a stream: requests, mean and percentiles per group and stage.

    Args:
        durations: has a column per stage.
        by: columns to group by.
        more: further named aggregates of a group, added as the last columns.
    """
    stages = [
        f.struct(
            f.lit(stage).alias("stage"),
            f.count(stage).alias("requests"),
            f.avg(stage).alias("mean_us"),
            f.percentile(f.col(stage), quantiles()).alias("values"),
        )
        for stage in STAGES
    ]
    wide = durations.groupBy(*by).agg(f.array(*stages).alias("stages"), *more)
    rest = [name for name in wide.columns if name not in {*by, "stages"}]
    long = wide.select(*by, *rest, f.explode("stages").alias("s")).select(*by, *rest, "s.*")
    return long.select(*by, "stage", "requests", "mean_us", *percentile_columns("values"), *rest)
