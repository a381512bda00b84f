"""What the sections of the page share: colours, the table of loads, intervals as drawings.

Rules: a mode has one colour on the whole page; a load is named by `words.describe`. The modes of the two sides are
called by their names; where both are the same mode, side A and side B.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from spark_analysis.breakdown import BROKER_PARTS, SOCKET
from spark_analysis.cells import Cell, Load
from spark_analysis.judgement import said
from spark_analysis.report import charts
from spark_analysis.report.markup import Markup, figure, join, legend, table
from spark_analysis.tables import RAW_CLIENT
from spark_analysis.words import DASH, describe, ends, milliseconds, persecond, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_analysis.interval import Ratio
    from spark_analysis.summary import Comparison

PARTS: Final = {name: f"s{place}" for place, name in enumerate(BROKER_PARTS, start=1)}
"""The parts of a request's time in the broker, in order, each with its colour."""
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
"""Kafka's names of stages, and what the parts are called that they are made of."""
ARROW = "\N{RIGHTWARDS ARROW}"
_PERCENTILE_WORDS: Final = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
_BEYOND_MAX: Final = 3.0
"""An interval is drawn to so many times the extreme middle at most, or one wild load would squash all others."""


def mode_kind(comparison: Comparison, mode: str) -> str:
    """Return the colour class of a mode; of more than two other brokers some share one."""
    zero, one = comparison.sides
    if mode in comparison.others:
        return f"other-{comparison.others.index(mode) % 2}"
    return "side-1" if mode == one else "side-0" if mode == zero else "other"


def modes(comparison: Comparison) -> list[str]:
    """The compared modes, one name where both sides are the same."""
    return list(dict.fromkeys(comparison.sides))


def side_names(comparison: Comparison) -> tuple[str, str]:
    """What the two sides are called."""
    zero, one = comparison.sides
    return (zero, one) if zero != one else ("side A", "side B")


def brokers(comparison: Comparison) -> list[str]:
    """Return the compared modes and the brokers that were driven beside them."""
    return [*modes(comparison), *comparison.others]


def mode_legend(comparison: Comparison, shown: Iterable[str] | None = None) -> Markup:
    """Return the colours of these modes and other brokers; of the compared modes unless given."""
    return legend((mode_kind(comparison, mode), mode) for mode in (modes(comparison) if shown is None else shown))


def loads_of(comparison: Comparison, wanted: Callable[[Load], bool]) -> list[Load]:
    """The loads of the comparison (not those of the ablation alone) that are wanted, in reading order."""
    shown = set(modes(comparison))
    return list(dict.fromkeys(key.load for key in comparison.cells if key.mode in shown and wanted(key.load)))


def native_closed(load: Load) -> bool:
    """Whether a load is one of the native client in a closed loop."""
    return load.client == RAW_CLIENT and not load.open_loop


def focus(comparison: Comparison) -> list[Load]:
    """The loads that are looked at closely: deepest pipeline on the fewest and on the most connections, no delay."""
    loads = loads_of(comparison, native_closed)
    plain = [load for load in loads if not load.commit_delay_ms] or loads
    if not plain:
        return []
    deepest = max(load.in_flight for load in plain)
    wide = sorted((load for load in plain if load.in_flight == deepest), key=lambda load: load.connections)
    return list(dict.fromkeys([wide[0], wide[-1]]))


def load_tables(comparison: Comparison, loads: Iterable[Load], what: str) -> Markup:
    """Rates and latencies of some loads, the modes side by side, each with the ratio and its interval.

    Args:
        comparison: what is reported.
        loads: the rows.
        what: that is counted, such as messages of an ordinary client.
    """
    listed = list(loads)
    return join([_rate_table(comparison, listed, what), latency_table(comparison, listed)])


def _rate_table(comparison: Comparison, loads: Iterable[Load], what: str) -> Markup:
    zero, one = side_names(comparison)
    head = ["Load", "Finding", *(f"{mode}, rate" for mode in brokers(comparison)), f"{one} over {zero}"]
    head += [f"{side} over {other}" for other in comparison.others for side in (one, zero)]
    rows = []
    for load in loads:
        cells = [comparison.cells.get(Cell(mode, load)) for mode in brokers(comparison)]
        rates = [persecond(cell.requests_per_s if cell else None) for cell in cells]
        ratio = comparison.speedups.get(load)
        beside = [
            ratio_said(over[other].get(load))
            for other in comparison.others
            for over in (comparison.over_others, comparison.base_over_others)
        ]
        rows.append([describe(load), DASH if ratio is None else said(ratio), *rates, ratio_said(ratio), *beside])
    caption = (
        f"{what} a second, with 95% intervals. A ratio pairs rounds, which weigh the same; a rate is over all rounds, "
        "so one slow round can move it the other way"
    )
    return table(caption, head, rows, texts=2)


def latency_table(comparison: Comparison, loads: Iterable[Load]) -> Markup:
    """Latencies of some loads, the modes side by side, and the ratio of one to the other with its interval."""
    shown = modes(comparison)
    zero, one = side_names(comparison)
    head = ["Load", *(part for name in _PERCENTILE_WORDS.values() for part in (name, f"{name} ratio"))]
    caption = (
        f"Latency, {f' {ARROW} '.join(shown)}; the ratio is {one} over {zero} with its 95% interval. A ratio "
        "pairs rounds; a percentile is that of all rounds together, so one slow round can move it the other way"
    )
    rows = []
    for load in loads:
        cells = [comparison.cells.get(Cell(mode, load)) for mode in shown]
        row = [describe(load)]
        for name in _PERCENTILE_WORDS:
            waits = [milliseconds(getattr(cell, f"{name}_ms") if cell else None) for cell in cells]
            row += [f" {ARROW} ".join(waits), ratio_said(comparison.latency_ratios[name].get(load))]
        rows.append(row)
    return table(caption, head, rows)


def ratio_cells(ratio: Ratio | None) -> list[str]:
    """A ratio and its interval as two table cells."""
    return [DASH, DASH] if ratio is None else [times(ratio.value), ends(ratio)]


def ratio_said(ratio: Ratio | None) -> str:
    """A ratio and its interval in one table cell."""
    if ratio is None:
        return DASH
    return times(ratio.value) if ratio.low is None else f"{times(ratio.value)} ({ends(ratio)})"


def forest(title: str, ratios: Iterable[tuple[str, Ratio]], note: str, *, is_less_better: bool = False) -> Markup:
    """A figure with one line a ratio: a dot at its value, a whisker over its interval, and where 1 is.

    A ratio that is not called different from 1 is drawn hollow, and its middle is not written.

    Args:
        title: of the figure.
        ratios: each with its name; at least one.
        note: what the marks mean.
        is_less_better: of latencies: below 1 has the colour of side 1.
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
        chance = "not beyond chance" if not ratio.excludes_one else "beyond chance alone, not among so many"
        undecided = "too few rounds for an interval" if ratio.low is None else f"{chance}: {ends(ratio)}"
        value = f"{times(ratio.value)} ({ends(ratio)})" if is_called else undecided
        bars.append(charts.Bar(name, value, place(ratio.value), 0, kind, whisker, place(1.0)))
    return figure(title, charts.bars(title, bars), note=note)


INTERVAL_NOTE: Final = (
    "Dot: geometric mean of paired rounds; line: its 95% interval; dotted line: no difference; grey: not beyond "
    "chance. Logarithmic scale. Colour, and the words faster and slower, hold for all loads of an experiment (the "
    "native client, the ordinary clients) together: the chance of one false claim among them is at most 5% (Holm's "
    "correction)."
)
"""What the marks of a drawing of intervals mean, and what stands behind its claims."""
