"""Where the time of a request goes: Kafka's formulas, and three that Kafka does not measure.

Rules: durations are whole microseconds (bigint: Spark's exact percentile is twenty times faster on them than on
doubles), clamped at 0 as Kafka does. They come from traced runs and from Produce requests only; a long-polling Fetch
waits because it was asked to.

The stages and their stamps are `tables.STAGES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from spark_analysis.tables import PRODUCE_API, STAGES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_analysis.run import TraceRun

QUANTILES: Final = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999, "p9999_us": 0.9999}
"""The percentiles that jobs give, by the names of their columns."""
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
    """The whole microseconds between two stamps, at least 0; null where a stamp is."""
    return f.expr(f"if({ended} < {began}, 0L, ({ended} - {began}) div 1000)")  # not greatest, which passes over null


def percentile_columns(values: str) -> list[Column]:
    """An array of exact percentiles as the columns of `QUANTILES`."""
    return [f.col(values)[place].alias(name) for place, name in enumerate(QUANTILES)]


def quantiles() -> Column:
    """The percentages of `QUANTILES`, as `percentile` takes them."""
    return f.array(*[f.lit(quantile) for quantile in QUANTILES.values()])


def stage_latency(run: TraceRun, *, by: tuple[str, ...] = ("mode",)) -> DataFrame:
    """Exact percentiles of every stage over the Produce requests of traced runs.

    Args:
        run: an opened experiment.
        by: columns of `runs` to group by; the whole cell is `stage.CELL_COLUMNS`.

    Returns:
        the grouping columns, stage, requests, mean_us, p50_us, p90_us, p99_us, p999_us, p9999_us (microseconds).
    """
    runs = run.runs.where("traced").select("run", *by)
    return stage_statistics(stage_durations(run).join(f.broadcast(runs), "run"), by)


def stage_durations(run: TraceRun, *more: str) -> DataFrame:
    """The Produce requests with the microseconds of each stage as columns, and further columns of `requests`."""
    return durations_of(run.requests, "run", *more)


def durations_of(requests: DataFrame, *more: str) -> DataFrame:
    """Of any data frame with the columns of `requests`: the same, with the further columns first."""
    durations = [microseconds(*ends).alias(stage) for stage, ends in STAGES.items()]
    return requests.where(f.col("api") == PRODUCE_API).select(*more, *durations)


def stage_statistics(durations: DataFrame, by: tuple[str, ...], *more: Column) -> DataFrame:
    """One row a group and stage: requests, mean and percentiles of what `stage_durations` gave; also of a stream.

    Args:
        durations: the stages as columns.
        by: columns to group by.
        more: further aggregates of a group, with names; they stand behind the others.
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
