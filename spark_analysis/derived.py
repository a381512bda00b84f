"""What the report computes, as Parquet tables beside the traces, so that other queries need not compute it again.

Rules: they hold what the page and `summary.json` say, unrounded; percentiles stand there also where fewer than ten
samples lie beyond. They are written when the report is, all of them or none; an empty one has its columns.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import attrs

from spark_analysis.stage import CELL_COLUMNS, QUANTILES
from spark_analysis.violations import order_violations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_analysis.cells import Cell
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
}
_CELL: Final = {"mode": "string", **_LOAD}
DERIVED: Final = {
    "stage_latency": {
        **_CELL,
        "stage": "string",
        "requests": "bigint",
        "mean_us": "double",
        **dict.fromkeys(QUANTILES, "double"),
    },
    "latency_by_round": {
        "run": "int",
        **_CELL,
        "experiment": "string",
        "round": "int",
        "side": "int",
        "requests": "bigint",
        "requests_per_s": "double",
        **dict.fromkeys(("p50_us", "p99_us", "p999_us"), "double"),
    },
    "speedups": {**_LOAD, "speedup": "double", "low": "double", "high": "double", "rounds": "int"},
}
"""The tables that are made from figures, and their columns; `order_violations` is made from the traces."""
_VALUES: Final = {"string": str, "int": int, "bigint": int, "double": float}


def write_derived(place: Location, run: TraceRun, comparison: Comparison) -> None:
    """Write the folder `derived`.

    Args:
        place: the folder of the experiment.
        run: its traces.
        comparison: what was found in them.
    """
    fresh = place / f"{DERIVED_FOLDER}.new"
    fresh.remove()
    try:
        with fresh.without_checksums():
            for name, rows in _rows(comparison).items():
                _write(fresh / name, DERIVED[name], rows)
            found = order_violations(run)
            if not any(audit.violations for audit in comparison.figures.audits):
                found = run.spark.createDataFrame([], found.schema)  # nothing to look for again
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
    stages = chain.from_iterable(
        ({**_named(cell), "stage": name, **attrs.asdict(stage)} for name, stage in found.items())
        for cell, found in figures.stages.items()
    )
    rounds = ({**attrs.asdict(each, recurse=False), **_named(each.cell)} for each in figures.rounds)
    speedups = (
        {**load._asdict(), "speedup": ratio.value, "low": ratio.low, "high": ratio.high, "rounds": ratio.rounds}
        for load, ratio in comparison.speedups.items()
    )
    return {"stage_latency": stages, "latency_by_round": rounds, "speedups": speedups}


def _named(cell: Cell) -> dict[str, Any]:
    named = {"mode": cell.mode, **cell.load._asdict()}
    return {name: named[name] for name in CELL_COLUMNS}
