"""Results of the report's Spark queries, as plain values.

The queries are independent and small, so they run as one job. They return a few thousand values; the modules that use
these values do not know Spark.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs

from spark_analysis.audit import ordering_audit
from spark_analysis.cells import Cell, Load, Run, RunLatency, parse_object, short_variants
from spark_analysis.costs import StoreRun
from spark_analysis.errors import TraceError
from spark_analysis.inside_figures import Inside, first_violations, inside_figures, inside_queries, traced_queries
from spark_analysis.latency import client_runs
from spark_analysis.queries import (
    commit_sizes,
    commit_times,
    latency,
    replay_buckets,
    waits,
)
from spark_analysis.stage import stage_latency
from spark_analysis.store import store_requests
from spark_analysis.tables import REPLAY_CLIENT
from spark_analysis.together import collect_together, shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, Row

    from spark_analysis.run import TraceRun

_RUNS_MAX: Final = 100_000
_OFFERED_IN_VARIANT: Final = "rate="


@attrs.frozen
class Curve:
    """The end-to-end latency of one cell at the quantiles of `queries.CURVE`, in microseconds."""

    samples: int
    values_us: tuple[float, ...]


@attrs.frozen
class StageFigures:
    requests: int
    mean_us: float | None
    p50_us: float | None
    p90_us: float | None
    p99_us: float | None
    p999_us: float | None
    p9999_us: float | None


@attrs.frozen
class Audit:
    run: int
    audit: str
    audited: int
    violations: int
    complete: bool


@attrs.frozen
class Commits:
    """The commits of one cell.

    Attributes:
        sizes: number of commits by entries per commit.
        on_loop_share: the share of commits that ran on the event loop; None in older traces.
    """

    sizes: dict[int, int]
    bytes: int
    commit_p50_us: float | None
    commit_p99_us: float | None
    sync_p50_us: float | None
    on_loop_share: float | None = None

    @property
    def count(self) -> int:
        return sum(self.sizes.values())

    @property
    def entries_mean(self) -> float:
        return sum(size * times for size, times in self.sizes.items()) / max(1, self.count)

    def entries_quantile(self, quantile: float) -> int:
        """Return the least size that is at least as large as this share of the commits; 0 without commits."""
        seen = 0
        for size, times in sorted(self.sizes.items()):
            seen += times
            if seen >= quantile * self.count:
                return size
        return 0


@attrs.frozen
class Wait:
    """The waits of one cell for a mute reason, or the depth of its queues.

    Attributes:
        reason: None for the depth of the queues.
        times: the number of waits, or of samples of the depth.
        total, p99: in microseconds; for the depth, in requests.
    """

    reason: str | None
    times: int
    total: int
    p99: float


@attrs.frozen
class Bucket:
    run: int
    mode: str
    bucket: int
    requests: int
    p50_us: float
    p99_us: float


@attrs.frozen
class Figures:
    """The results of all queries. `stages` and `store` are keyed by the number of a traced run."""

    runs: tuple[Run, ...]
    curves: dict[Cell, Curve]
    stages: dict[int, dict[str, StageFigures]]
    audits: tuple[Audit, ...]
    commits: dict[Cell, Commits]
    waits: dict[Cell, tuple[Wait, ...]]
    buckets: tuple[Bucket, ...]
    inside: Inside = attrs.field(factory=Inside)
    store: dict[int, StoreRun] = attrs.field(factory=dict)
    left_out: tuple[str, ...] = ()


def gather(traces: TraceRun, progress: Callable[[int, int], None] = lambda _done, _total: None) -> Figures:
    """Run every query of the report.

    Raises:
        TraceError: the experiment has no run or more than _RUNS_MAX, or a table lacks its columns.
    """
    with shared(traces) as run:
        described = run.runs.collect()
        if not 0 < len(described) <= _RUNS_MAX:
            raise TraceError(
                f"{run.traces / 'runs'} has {len(described):,} runs, but a report needs 1 to {_RUNS_MAX:,}. Run an "
                "experiment of that size"
            )
        rows = defaultdict(list, collect_together(report_queries(run, described), progress), runs=described)
        # Listing violations sorts all rows again, so it runs only if the audit has counted any.
        is_broken = any(row["violations"] for row in rows["audit"])
        rows["violations"] = first_violations(run).collect() if is_broken else []
    return attrs.evolve(_figures(rows), left_out=run.left_out)


def report_queries(run: TraceRun, described: list[Row]) -> dict[str, DataFrame]:
    queries = {
        "totals": client_runs(run),
        "latency": latency(run),
        "audit": ordering_audit(run),
        **inside_queries(run, _first_runs(described)),
    }
    if any(row["client"] == REPLAY_CLIENT for row in described):
        queries["buckets"] = replay_buckets(run)
    if any(row["traced"] for row in described):
        queries |= {
            "stages": stage_latency(run, by=("run",)),
            "sizes": commit_sizes(run),
            "times": commit_times(run),
            "waits": waits(run),
            **({"store": store_requests(run)} if run.has_store else {}),
            **traced_queries(run),
        }
    return queries


def _first_runs(described: list[Row]) -> list[int]:
    first: dict[Cell, int] = {}
    for row in sorted(described, key=lambda row: int(row["run"])):
        if not row["traced"]:
            first.setdefault(_cell(row), row["run"])
    return list(first.values())


def _figures(rows: dict[str, list[Row]]) -> Figures:
    shorter = short_variants({row["variant"] for row in rows["runs"]})
    rows = defaultdict(list, {name: [_renamed(row, shorter) for row in found] for name, found in rows.items()})
    totals = {row["run"]: row for row in rows["totals"]}
    times = {_cell(row): row for row in rows["times"]}
    runs = sorted((_run(row, totals.get(row["run"])) for row in rows["runs"]), key=lambda run: run.number)
    stages: dict[int, dict[str, StageFigures]] = {}
    for row in rows["stages"]:
        values = {field.name: row[field.name] for field in attrs.fields(StageFigures)}
        stages.setdefault(row["run"], {})[row["stage"]] = StageFigures(**values)
    filled: dict[Cell, tuple[Wait, ...]] = {}
    for row in rows["waits"]:
        wait = Wait(row["what"], row["times"], row["total"] or 0, row["p99"] or 0.0)
        filled[_cell(row)] = (*filled.get(_cell(row), ()), wait)
    return Figures(
        runs=tuple(runs),
        curves={_cell(row): Curve(row["samples"], tuple(row["curve_us"])) for row in rows["latency"]},
        stages=stages,
        audits=tuple(Audit(**row.asDict()) for row in rows["audit"]),
        commits=_commits(rows["sizes"], times),
        waits=filled,
        inside=inside_figures(rows),
        store={row["run"]: StoreRun(**row.asDict()) for row in rows.get("store", ())},
        buckets=tuple(
            sorted((Bucket(**row.asDict()) for row in rows["buckets"]), key=lambda found: (found.run, found.bucket))
        ),
    )


def _renamed(row: Row, shorter: dict[str, str]) -> Row:
    if "variant" not in row or not row["variant"]:
        return row
    return type(row)(**{**row.asDict(), "variant": shorter[row["variant"]]})


def _cell(row: Row) -> Cell:
    share, rate = row["offered_share"] or 0.0, row["offered_per_s"] or 0.0
    variant = row["variant"]
    if rate:
        # The offered rate has columns of its own, so the variant must not repeat it.
        variant = " ".join(part for part in variant.split() if not part.startswith(_OFFERED_IN_VARIANT))
    load = (row["client"], row["connections"], row["in_flight"], row["commit_delay_ms"], variant)
    return Cell(row["mode"], Load(*load, row["offered_of"] or "", share, rate))


def _run(row: Row, totals: Row | None) -> Run:
    counted: dict[str, Any] = totals.asDict() if totals is not None else {}
    waited = {name: counted.pop(name, None) for name in attrs.fields_dict(RunLatency)}
    counted.pop("run", None)
    return Run(
        number=row["run"],
        round=row["round"],
        traced=row["traced"],
        side=row["side"],
        cell=_cell(row),
        flush=row["flush"],
        settings=parse_object(row["settings"]),
        factors=parse_object(row["factors"]),
        machine=parse_object(row["machine"]),
        client_cpu_share=row["client_cpu_share"],
        lost_rows=row["lost_rows"] or 0,
        latency=RunLatency(**waited) if waited["samples"] else None,
        **counted,
    )


def _commits(sizes: Iterable[Row], times: dict[Cell, Row]) -> dict[Cell, Commits]:
    by_cell: dict[Cell, dict[int, int]] = {}
    size_bytes: dict[Cell, int] = {}
    for row in sizes:
        cell = _cell(row)
        by_cell.setdefault(cell, {})[row["entries"] or 0] = row["commits"]
        size_bytes[cell] = size_bytes.get(cell, 0) + (row["bytes"] or 0)
    found = {}
    for cell, counts in by_cell.items():
        commit_us = times[cell]["commit_us"] or (None, None)
        sync_us = times[cell]["sync_us"] or (None, None)
        found[cell] = Commits(
            counts, size_bytes[cell], commit_us[0], commit_us[1], sync_us[0], times[cell]["on_loop_share"]
        )
    return found
