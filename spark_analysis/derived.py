"""Results of the report as Parquet tables beside the traces, for other queries.

The tables contain the unrounded numbers of the page and of `summary.json`, and also percentiles with fewer than ten
samples beyond them. They are written together with the report, all or none. An empty table has its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from spark_analysis.cells import PERCENTILES, rate
from spark_analysis.stage import QUANTILES
from spark_analysis.violations import order_violations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_analysis.cells import Load, Run
    from spark_analysis.interval import Ratio
    from spark_analysis.location import Location
    from spark_analysis.run import TraceRun
    from spark_analysis.summary import Comparison

DERIVED_FOLDER: Final = "derived"
_LOAD: Final = {
    "client": "string",
    "connections": "int",
    "in_flight": "int",
    "commit_delay_ms": "double",
    "variant": "string",
    "offered_of": "string",
    "offered_share": "double",
    "offered_per_s": "double",
}
_RUN: Final = {"run": "int", "mode": "string", **_LOAD, "experiment": "string", "round": "int", "side": "int"}
_WAITS: Final = (
    *(f"{prefix}{name}_us" for prefix in ("", "sent_") for name in PERCENTILES),
    "late_us",
    "growth",
)
DERIVED: Final = {
    "stage_latency": {
        **_RUN,
        "stage": "string",
        "requests": "bigint",
        "mean_us": "double",
        **dict.fromkeys(QUANTILES, "double"),
    },
    "latency_by_round": {
        **_RUN,
        "requests": "bigint",
        "samples": "bigint",
        "seconds": "double",
        "requests_per_s": "double",
        **dict.fromkeys(_WAITS, "double"),
    },
    "speedups": {
        **_LOAD,
        "speedup": "double",
        "low": "double",
        "high": "double",
        "rounds": "int",
        "corrected_p": "double",
        **{f"{name}_{end}": "double" for name in PERCENTILES for end in ("ratio", "low", "high")},
    },
}
"""Columns of the tables that come from `Figures`. `order_violations` comes from the traces."""
_VALUES: Final = {"string": str, "int": int, "bigint": int, "double": float}


def write_derived(place: Location, run: TraceRun, comparison: Comparison) -> None:
    """Write the folder `derived` in the folder of the experiment, completely or not at all. Replace an earlier one."""
    fresh = place / f"{DERIVED_FOLDER}.new"
    fresh.remove()
    try:
        with fresh.without_checksums():
            for name, rows in _rows(comparison).items():
                _write(fresh / name, DERIVED[name], rows)
            found = order_violations(run)
            if not any(audit.violations for audit in comparison.figures.audits):
                found = run.spark.createDataFrame([], found.schema)  # the audit found none: skip the query
            found.coalesce(1).write.parquet((fresh / "order_violations").uri)
        fresh.rename(place / DERIVED_FOLDER)
    except BaseException:
        fresh.remove()
        raise


def _write(place: Location, columns: dict[str, str], rows: Iterable[dict[str, Any]]) -> None:
    values = [[_value(kind, row[name]) for name, kind in columns.items()] for row in rows]
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    place.spark.createDataFrame(values, declared).coalesce(1).write.parquet(place.uri)


def _value(kind: str, value: Any) -> Any:
    return None if value is None else _VALUES[kind](value)


def _rows(comparison: Comparison) -> dict[str, Iterable[dict[str, Any]]]:
    figures = comparison.figures
    stages = (
        {**_named(run), "stage": name, **attrs.asdict(stage)}
        for run in figures.runs
        for name, stage in figures.stages.get(run.number, {}).items()
    )
    rounds = (
        {
            **_named(run),
            "requests": run.requests,
            "samples": 0 if run.latency is None else run.latency.samples,
            "seconds": run.seconds,
            "requests_per_s": rate([run]),
            **{name: getattr(run.latency, name, None) for name in _WAITS},
        }
        for run in figures.runs
        if not run.traced and run.requests
    )
    speedups = (
        {**_offered(load), **_ratio(ratio, "speedup"), "rounds": ratio.rounds, "corrected_p": ratio.corrected}
        | {
            f"{name}_{end}": value
            for name, found in comparison.latency_ratios.items()
            for end, value in _ratio(found.get(load), "ratio").items()
        }
        for load, ratio in comparison.speedups.items()
    )
    return {"stage_latency": stages, "latency_by_round": rounds, "speedups": speedups}


def _ratio(ratio: Ratio | None, name: str) -> dict[str, float | None]:
    if ratio is None:
        return {name: None, "low": None, "high": None}
    return {name: ratio.value, "low": ratio.low, "high": ratio.high}


def _named(run: Run) -> dict[str, Any]:
    named = {"run": run.number, "mode": run.cell.mode, **_offered(run.cell.load)}
    return {**named, "experiment": run.settings.get("experiment"), "round": run.round, "side": run.side}


def _offered(load: Load) -> dict[str, Any]:
    """Return a load by column names. As in `runs`, the `offered_` columns are null in a closed loop."""
    named = load._asdict()
    return {name: named[name] or None if name.startswith("offered_") else named[name] for name in _LOAD}
