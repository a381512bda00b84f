"""What the sections of the page share: names, colours, the table of loads.

Rules: a mode has one colour on the whole page; a load is named by `findings.describe`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from spark_analysis.cells import Cell, Load
from spark_analysis.findings import describe, milliseconds, times
from spark_analysis.report import charts
from spark_analysis.report.markup import Markup, figure, legend, table
from spark_analysis.tables import RAW_CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_analysis.interval import Ratio
    from spark_analysis.summary import Comparison

PARTS: Final = {
    "request queue": "s1",
    "handler": "s2",
    "commit wait": "s3",
    "other wait": "s4",
    "order wait": "s5",
    "response queue": "s6",
    "send": "s7",
}
"""The parts of a request's time, in order, each with its colour."""
ARROW = "\N{RIGHTWARDS ARROW}"


def mode_kind(comparison: Comparison, mode: str) -> str:
    """The colour class of a mode."""
    zero, one = comparison.sides
    return "side-1" if mode == one else "side-0" if mode == zero else "other"


def modes(comparison: Comparison) -> list[str]:
    """The compared modes, one name where both sides are the same."""
    return list(dict.fromkeys(comparison.sides))


def mode_legend(comparison: Comparison) -> Markup:
    """Colours of the compared modes."""
    return legend((mode_kind(comparison, mode), mode) for mode in modes(comparison))


def loads_of(comparison: Comparison, wanted: Callable[[Load], bool]) -> list[Load]:
    """The loads of the comparison (not those of the ablation alone) that are wanted, in reading order."""
    shown = set(modes(comparison))
    return list(dict.fromkeys(key.load for key in comparison.cells if key.mode in shown and wanted(key.load)))


def focus(comparison: Comparison) -> list[Load]:
    """The loads that are looked at closely: deepest pipeline on the fewest and on the most connections, no delay."""
    loads = loads_of(comparison, lambda load: load.client == RAW_CLIENT)
    plain = [load for load in loads if not load.commit_delay_ms] or loads
    if not plain:
        return []
    deepest = max(load.in_flight for load in plain)
    wide = sorted((load for load in plain if load.in_flight == deepest), key=lambda load: load.connections)
    return list(dict.fromkeys([wide[0], wide[-1]]))


def persecond(value: float | None) -> str:
    """A rate with as many digits as it deserves."""
    return "\N{EN DASH}" if value is None else f"{value:,.0f}/s"


def load_table(comparison: Comparison, loads: Iterable[Load], caption: str) -> Markup:
    """Rates, speed-up and latencies of some loads, the modes side by side."""
    shown = modes(comparison)
    head = ["Load", *(f"{mode}, rate" for mode in shown), "Speed-up", "95% interval"]
    head += ["p50", "p99", "p99.9"]
    if len(shown) > 1:
        caption += f"; latencies: {f' {ARROW} '.join(shown)}"
    rows = []
    for load in loads:
        cells = [comparison.cells.get(Cell(mode, load)) for mode in shown]
        rates = [persecond(cell.requests_per_s if cell else None) for cell in cells]
        latencies = [
            f" {ARROW} ".join(milliseconds(getattr(cell, name) if cell else None) for cell in cells)
            for name in ("p50_ms", "p99_ms", "p999_ms")
        ]
        rows.append([describe(load), *rates, *ratio_cells(comparison.speedups.get(load)), *latencies])
    return table(caption, head, rows)


def ratio_cells(ratio: Ratio | None) -> list[str]:
    """A ratio and its interval as two table cells."""
    if ratio is None:
        return ["\N{EN DASH}", "\N{EN DASH}"]
    if ratio.low is None or ratio.high is None:
        return [times(ratio.value), "one round"]
    return [times(ratio.value), f"{times(ratio.low)} to {times(ratio.high)}"]


def forest(title: str, ratios: Iterable[tuple[str, Ratio]], note: str) -> Markup:
    """A figure with one line a ratio: a dot at its value, a whisker over its interval, and where 1 is.

    Args:
        title: of the figure.
        ratios: each with its name; at least one.
        note: what the marks mean.
    """
    entries = list(ratios)
    ends = [1.0, *(end for _, ratio in entries for end in (ratio.value, ratio.low, ratio.high) if end)]
    low, high = math.log(min(ends)) - 0.05, math.log(max(ends)) + 0.05

    def place(value: float) -> float:
        return (math.log(value) - low) / (high - low)

    bars = []
    for name, ratio in entries:
        whisker = (place(ratio.low or ratio.value), place(ratio.high or ratio.value))
        said = f"{times(ratio.value)}"
        if ratio.low is not None and ratio.high is not None:
            said += f"  ({times(ratio.low)} to {times(ratio.high)})"
        bars.append(charts.Bar(name, said, place(ratio.value), 0, "side-1", whisker, place(1.0)))
    return figure(title, charts.bars(title, bars), note=note)


def duration(value_us: float | None) -> str:
    """Microseconds below a millisecond, milliseconds above; a dash where there is none."""
    if value_us is None:
        return "\N{EN DASH}"
    return f"{value_us:.0f} \N{MICRO SIGN}s" if value_us < 1000 else milliseconds(value_us / 1000)
