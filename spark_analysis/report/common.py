"""Parts that several sections of the page share: colours, the table of loads, drawings of intervals.

A mode has the same colour on the whole page. A load is described by `words.describe`. The two sides are called by the
names of their modes; if both are the same mode, side A and side B.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from spark_analysis.breakdown import BROKER_PARTS, SOCKET
from spark_analysis.cells import Cell, Load
from spark_analysis.judgement import FINDINGS_NOTE, rate_finding
from spark_analysis.report import charts
from spark_analysis.report.markup import Markup, figure, join, legend, table
from spark_analysis.tables import RAW_CLIENT
from spark_analysis.words import DASH, describe, ends, measured, milliseconds, persecond, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_analysis.interval import Ratio
    from spark_analysis.run_quality import RunQuality
    from spark_analysis.summary import Comparison

PARTS: Final = {name: f"s{place}" for place, name in enumerate(BROKER_PARTS, start=1)}
"""The colour classes of the parts of a request's time in the broker, in order."""
ALL_PARTS: Final = {SOCKET: "socket", **PARTS}
STAGE_WORDS: Final = {
    "RequestQueue": "request queue",
    "Local": "handler",
    "LaterSteps": "a part of handler",
    "Remote": "commit wait and other wait",
    "CommitWait": "commit wait",
    "ResponseOrderWait": "order wait",
    "ResponseQueue": "order wait and response queue",
    "ResponseSend": "send",
    "Total": "in all",
}
"""The parts of a request's time in each of Kafka's stages."""
ARROW = "\N{RIGHTWARDS ARROW}"
_PERCENTILE_WORDS: Final = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
_BEYOND_MAX: Final = 3.0
"""Limit of a drawn interval, as a multiple of the extreme ratio. Otherwise one wide interval squashes all others."""


def mode_kind(comparison: Comparison, mode: str) -> str:
    """Return the colour class of a mode. With more than two other brokers, some share one."""
    zero, one = comparison.sides
    if mode in comparison.others:
        return f"other-{comparison.others.index(mode) % 2}"
    return "side-1" if mode == one else "side-0" if mode == zero else "other"


def modes(comparison: Comparison) -> list[str]:
    """Return the compared modes; one name if both sides are the same mode."""
    return list(dict.fromkeys(comparison.sides))


def side_names(comparison: Comparison) -> tuple[str, str]:
    zero, one = comparison.sides
    return (zero, one) if zero != one else ("side A", "side B")


def brokers(comparison: Comparison) -> list[str]:
    return [*modes(comparison), *comparison.others]


def mode_legend(comparison: Comparison, shown: Iterable[str] | None = None) -> Markup:
    """Return the colour keys of some modes, by default of the compared ones."""
    return legend((mode_kind(comparison, mode), mode) for mode in (modes(comparison) if shown is None else shown))


def loads_of(comparison: Comparison, wanted: Callable[[Load], bool]) -> list[Load]:
    """Return the wanted loads of the comparison in reading order, without those of the ablation alone."""
    shown = set(modes(comparison))
    return list(dict.fromkeys(key.load for key in comparison.cells if key.mode in shown and wanted(key.load)))


def native_closed(load: Load) -> bool:
    return load.client == RAW_CLIENT and not load.open_loop


def focus(comparison: Comparison) -> list[Load]:
    """Return the loads that the report shows in detail: the deepest pipeline on the fewest and on the most connections.

    Loads without a commit delay are preferred. Without closed loops of the native client, the list is empty.
    """
    loads = loads_of(comparison, native_closed)
    plain = [load for load in loads if not load.commit_delay_ms] or loads
    if not plain:
        return []
    deepest = max(load.in_flight for load in plain)
    wide = sorted((load for load in plain if load.in_flight == deepest), key=lambda load: load.connections)
    return list(dict.fromkeys([wide[0], wide[-1]]))


def load_tables(comparison: Comparison, loads: Iterable[Load], unit: str, quality: RunQuality) -> Markup:
    """Return tables of rates and latencies, the modes side by side, each with the ratio and its interval.

    Args:
        loads: the rows.
        unit: the counted unit, such as messages of an ordinary client.
    """
    listed = list(loads)
    return join([_rate_table(comparison, listed, unit, quality), latency_table(comparison, listed)])


def _rate_table(comparison: Comparison, loads: Iterable[Load], unit: str, quality: RunQuality) -> Markup:
    zero, one = side_names(comparison)
    head = ["Load", "Finding", *(f"{mode}, rate" for mode in brokers(comparison)), f"{one} over {zero}"]
    head += [f"{side} over {other}" for other in comparison.others for side in (one, zero)]
    rows = []
    for load in loads:
        cells = [comparison.cells.get(Cell(mode, load)) for mode in brokers(comparison)]
        rates = [persecond(cell.requests_per_s if cell else None) for cell in cells]
        ratio = comparison.speedups.get(load)
        beside = [
            ratio_cell(over[other].get(load))
            for other in comparison.others
            for over in (comparison.over_others, comparison.base_over_others)
        ]
        finding = DASH if ratio is None else quality.claim(rate_finding(ratio))
        rows.append([describe(load), finding, *rates, ratio_cell(ratio), *beside])
    caption = (
        f"{unit} per second, with 95% intervals. A ratio pairs rounds, and every round weighs the same. A rate is over "
        f"all rounds, so one slow round can move the rate in the opposite direction. {FINDINGS_NOTE}"
    )
    return table(caption, head, rows, texts=2)


def latency_table(comparison: Comparison, loads: Iterable[Load]) -> Markup:
    shown = modes(comparison)
    zero, one = side_names(comparison)
    head = ["Load", *(part for name in _PERCENTILE_WORDS.values() for part in (name, f"{name} ratio"))]
    caption = (
        f"Latency, {f' {ARROW} '.join(shown)}; the ratio is {one} over {zero} with its 95% interval. A ratio pairs "
        "rounds. A percentile is over all rounds, so one slow round can move the percentile in the opposite direction"
    )
    rows = []
    for load in loads:
        cells = [comparison.cells.get(Cell(mode, load)) for mode in shown]
        row = [describe(load)]
        for name in _PERCENTILE_WORDS:
            waits = [milliseconds(getattr(cell, f"{name}_ms") if cell else None) for cell in cells]
            row += [f" {ARROW} ".join(waits), ratio_cell(comparison.latency_ratios[name].get(load))]
        rows.append(row)
    return table(caption, head, rows)


def ratio_cells(ratio: Ratio | None) -> list[str]:
    return [DASH, DASH] if ratio is None else [times(ratio.value), ends(ratio)]


def ratio_cell(ratio: Ratio | None) -> str:
    return DASH if ratio is None else measured(ratio)


def forest(title: str, ratios: Iterable[tuple[str, Ratio]], note: str, *, is_less_better: bool = False) -> Markup:
    """Draw a forest plot: per ratio a dot at its value and a whisker over its interval, with a reference line at 1.

    A ratio that is not beyond chance is drawn hollow, and its value is not written.

    Args:
        ratios: names and ratios; at least one.
        note: explains the marks.
        is_less_better: for latencies: a ratio below 1 gets the colour of side 1.
    """
    entries = list(ratios)
    values = [1.0, *(ratio.value for _, ratio in entries)]
    drawn_ends = [end for _, ratio in entries for end in (ratio.low, ratio.high) if end]
    low = math.log(max(min([*values, *drawn_ends]), min(values) / _BEYOND_MAX)) - 0.05
    high = math.log(min(max([*values, *drawn_ends]), max(values) * _BEYOND_MAX)) + 0.05

    def place(value: float) -> float:
        return min(1.0, max(0.0, (math.log(value) - low) / (high - low)))

    bars = []
    for name, ratio in entries:
        whisker = (place(ratio.low or ratio.value), place(ratio.high or ratio.value))
        is_called = ratio.above or ratio.below
        better, worse = (ratio.below, ratio.above) if is_less_better else (ratio.above, ratio.below)
        kind = "side-1" if better else "side-0" if worse else "unclear"
        chance = "not beyond chance" if not ratio.excludes_one else "beyond chance alone, not after the correction"
        undecided = "too few rounds for an interval" if ratio.low is None else f"{chance}: {ends(ratio)}"
        value = measured(ratio) if is_called else undecided
        bars.append(charts.Bar(name, value, place(ratio.value), 0, kind, whisker, place(1.0)))
    return figure(title, charts.bars(title, bars), note=note)


INTERVAL_NOTE: Final = (
    "Dot: geometric mean of paired rounds; line: its 95% interval; dotted line: no difference; grey: not beyond "
    "chance. The scale is logarithmic. A ratio has a colour, or is called faster or slower, only if it passes Holm's "
    "correction for all loads of an experiment (the native client, or the ordinary clients). The chance of a false "
    "claim among these loads is at most 5%."
)
"""The explanation of the marks in a forest plot of speed-ups."""
