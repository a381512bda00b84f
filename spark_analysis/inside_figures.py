"""The query results that belong to runs, not cells: time series, queues, flow, lanes, quality of the rows.

Each class is one row of the query of the same name, with the same fields.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark.sql import functions as f

from spark_analysis.flow import littles_law, mute_spans
from spark_analysis.lanes import request_lanes
from spark_analysis.latency import client_series
from spark_analysis.quality import trace_quality
from spark_analysis.series import stage_series
from spark_analysis.shards import queue_imbalance
from spark_analysis.tables import Stamps
from spark_analysis.violations import order_violations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row

    from spark_analysis.run import TraceRun

VIOLATIONS_SHOWN_MAX: Final = 50


@attrs.frozen
class ClientPoint:
    run: int
    at_ms: float
    bucket_ms: float
    requests: int
    requests_per_s: float
    p50_us: float
    p99_us: float


@attrs.frozen
class StagePoint:
    run: int
    at_ms: float
    stage: str
    mean_us: float | None
    p99_us: float | None


@attrs.frozen
class Imbalance:
    run: int
    queues: int
    used_queues: int
    requests: int
    most_over_mean: float
    gini: float
    busiest_queue: int
    busiest_p99_us: float | None
    others_p99_us: float | None


@attrs.frozen
class Flow:
    run: int
    stage: str
    entered: int
    window_us: float
    rate_per_s: float
    wait_us: float | None
    expected: float
    measured: float
    difference: float


@attrs.frozen
class Spans:
    run: int
    reason: str
    spans: int
    unended: int
    connections: int
    total_us: int
    share: float | None
    p50_us: float | None
    p99_us: float | None
    most_us: int | None


@attrs.frozen
class LaneRequest(Stamps):
    run: int
    connection: int
    sequence: int
    queue: int | None
    depth: int
    commit: int | None


@attrs.frozen
class Violation:
    run: int
    audit: str
    rule: str
    connection: int
    sequence: int
    topic: str | None
    partition: int | None
    before: int
    found: int
    violations: int


@attrs.frozen
class Quality:
    run: int
    table: str
    rows: int
    backwards: int
    step_us: float
    unanswered: int
    errors: int | None


@attrs.frozen
class Inside:
    series: tuple[ClientPoint, ...] = ()
    stage_series: tuple[StagePoint, ...] = ()
    shards: tuple[Imbalance, ...] = ()
    flow: tuple[Flow, ...] = ()
    spans: tuple[Spans, ...] = ()
    lanes: tuple[LaneRequest, ...] = ()
    violations: tuple[Violation, ...] = ()
    quality: tuple[Quality, ...] = ()


def inside_queries(run: TraceRun, shown: Iterable[int]) -> dict[str, DataFrame]:
    """Return the queries that every experiment needs, by the names of `Inside`.

    Args:
        shown: the untraced runs whose time series the report shows.
    """
    return {
        "series": client_series(run, bucket_ms=None).where(f.col("run").isin(*shown)),
        "quality": trace_quality(run),
    }


def traced_queries(run: TraceRun) -> dict[str, DataFrame]:
    return {
        "stage_series": stage_series(run, bucket_ms=None).select("run", "at_ms", "stage", "mean_us", "p99_us"),
        "shards": queue_imbalance(run),
        "flow": littles_law(run),
        "spans": mute_spans(run),
        "lanes": request_lanes(run),
    }


def first_violations(run: TraceRun) -> DataFrame:
    """Return the first violations of order. Run it only if the audit has counted any."""
    return order_violations(run).orderBy("run", "audit", "connection", "sequence").limit(VIOLATIONS_SHOWN_MAX)


_KINDS: Final[dict[str, tuple[type, tuple[str, ...]]]] = {
    "series": (ClientPoint, ("run", "at_ms")),
    "stage_series": (StagePoint, ("run", "stage", "at_ms")),
    "shards": (Imbalance, ("run",)),
    "flow": (Flow, ("run",)),
    "spans": (Spans, ("run", "reason")),
    "lanes": (LaneRequest, ("run", "sequence")),
    "violations": (Violation, ("run", "audit", "connection", "sequence")),
    "quality": (Quality, ("run", "table")),
}


def inside_figures(rows: dict[str, list[Row]]) -> Inside:
    found: dict[str, Any] = {}
    for name, (kind, order) in _KINDS.items():
        values = [kind(**row.asDict()) for row in rows[name]]
        found[name] = tuple(sorted(values, key=attrgetter(*order)))
    return Inside(**found)
