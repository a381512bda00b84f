"""The sections about closed loops as clients see them: throughput, latency, ablation.

Drawings of one section share their axes, so that readers can compare them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_analysis.cells import SAMPLES_BEYOND_IN_RUN_MIN, Cell, Load, enough_samples
from spark_analysis.queries import CURVE
from spark_analysis.report import charts
from spark_analysis.report.common import (
    brokers,
    forest,
    latency_table,
    load_tables,
    loads_of,
    mode_kind,
    mode_legend,
    modes,
    native_closed,
    ratio_cells,
)
from spark_analysis.report.markup import NOTHING, Markup, details, figure, paragraph, section, table
from spark_analysis.tables import ABLATION_MODES
from spark_analysis.words import describe, ends, full_name, milliseconds, persecond, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_analysis.interval import Ratio
    from spark_analysis.run_quality import RunQuality
    from spark_analysis.summary import Comparison

_TAIL_END = 4.0  # the upper axis of latency curves ends at 99.99 %
_HEAT_SIDE_MIN = 2  # a map with one row or column would be a line, which a panel shows better
_PANELS_OPEN = 6  # unfolded panels; more of them would make the page too long on a phone
_RATE_PANELS_OPEN = 9  # the number of panels of the profile `full`; a sweep has more
_MAPS_OPEN = 4


def throughput(comparison: Comparison, quality: RunQuality) -> Markup:
    loads = loads_of(comparison, native_closed)
    if not loads:
        return NOTHING
    groups: list[tuple[str, str, list[Load], Callable[[Load], float]]] = []
    for connections, delay, variant in dict.fromkeys(
        (load.connections, load.commit_delay_ms, load.variant) for load in loads
    ):
        same = [
            load
            for load in loads
            if (load.connections, load.commit_delay_ms, load.variant) == (connections, delay, variant)
        ]
        title = _where(connections, delay, variant)
        groups.append((title, "requests in flight", same, lambda load: load.in_flight))
    for connections, depth, variant in dict.fromkeys(
        (load.connections, load.in_flight, load.variant) for load in loads
    ):
        same = [
            load for load in loads if (load.connections, load.in_flight, load.variant) == (connections, depth, variant)
        ]
        title = f"{_where(connections, 0, variant)} x {depth} in flight"
        groups.append((title, "commit delay, ms", same, lambda load: load.commit_delay_ms))
    shown = [group for group in groups if len(group[2]) > 1] or groups[:1]
    rates = [cell.requests_per_s for key, cell in comparison.cells.items() if key.load in loads and cell.requests_per_s]
    rate_axis = charts.log_axis("requests per second", rates, charts.short)
    drawings = []
    for title, x_title, same, across in shown:
        x_axis = charts.steps_axis(x_title, [across(load) for load in same], lambda value: f"{value:g}")
        lines = [_rate_line(comparison, mode, same, across) for mode in brokers(comparison)]
        last = "; ".join(f"{line.name} {charts.short(line.points[-1][1])}" for line in lines if line.points)
        drawings.append(
            charts.panel(title, f"Rate by {x_title}; at the right end {last}", x_axis, rate_axis, lines, markers=True)
        )
    return section(
        "throughput",
        "Throughput by requests in flight",
        paragraph(
            "In a closed loop, each connection of the native client keeps the given number of requests unanswered. The "
            "vertical axis is logarithmic."
        ),
        mode_legend(comparison, brokers(comparison)),
        *_panels(drawings, _RATE_PANELS_OPEN, "Rates of the other loads"),
        *_heat_maps(comparison, loads),
        details("All figures as tables", load_tables(comparison, loads, "Requests of the native client", quality)),
    )


def _heat_maps(comparison: Comparison, loads: list[Load]) -> list[Markup]:
    ratios = {load: comparison.speedups[load] for load in loads if load in comparison.speedups}
    strongest = max((abs(math.log(ratio.value)) for ratio in ratios.values()), default=0.0) or 1.0
    maps = []
    for connections, variant in dict.fromkeys((load.connections, load.variant) for load in ratios):
        mine = {
            load: ratio for load, ratio in ratios.items() if (load.connections, load.variant) == (connections, variant)
        }
        depths = sorted({load.in_flight for load in mine})
        delays = sorted({load.commit_delay_ms for load in mine})
        if min(len(depths), len(delays)) < _HEAT_SIDE_MIN:
            continue
        cells = {(load.in_flight, load.commit_delay_ms): ratio for load, ratio in mine.items()}
        rows = [
            (f"{depth} in flight", [_heat(cells.get((depth, delay)), strongest) for delay in delays])
            for depth in depths
        ]
        zero, one = comparison.sides
        caption = f"{one} over {zero}, {_where(connections, 0, variant)}: speed-up, 95% interval"
        maps.append(charts.heat_map(caption, "commit delay", [f"{delay:g} ms" for delay in delays], rows))
    if not maps:
        return []
    others = [details("Maps of the other loads", *maps[_MAPS_OPEN:])] if len(maps) > _MAPS_OPEN else []
    return [figure("Speed-up by requests in flight and commit delay", *maps[:_MAPS_OPEN], *others)]


def _heat(ratio: Ratio | None, strongest: float) -> charts.Heat | None:
    if ratio is None:
        return None
    kind = "side-1" if ratio.above else "side-0" if ratio.below else "unclear"
    share = abs(math.log(ratio.value)) / strongest
    return charts.Heat("not decided" if kind == "unclear" else times(ratio.value), ends(ratio), kind, share)


def _where(connections: int, delay: float, variant: str = "") -> str:
    many = f"{connections} connection{'s' if connections != 1 else ''}"
    return many + (f", {delay:g} ms delay" if delay else "") + (f", {variant}" if variant else "")


def _rate_line(comparison: Comparison, mode: str, loads: list[Load], across: Callable[[Load], float]) -> charts.Line:
    points = []
    for load in sorted(loads, key=across):
        cell = comparison.cells.get(Cell(mode, load))
        if cell is not None and cell.requests_per_s:
            points.append((across(load), cell.requests_per_s))
    return charts.Line(mode_kind(comparison, mode), mode, tuple(points))


def latency(comparison: Comparison) -> Markup:
    loads = loads_of(comparison, lambda load: not load.open_loop)
    curves = {load: [_curve(comparison, Cell(mode, load)) for mode in brokers(comparison)] for load in loads}
    curves = {load: lines for load, lines in curves.items() if any(line.points for line in lines)}
    if not curves:
        return NOTHING
    values = [x for lines in curves.values() for line in lines for x, _ in line.points]
    x_axis = charts.log_axis("latency, ms", values, lambda value: f"{value:g}")
    y_axis = tail_axis()
    drawings = [
        charts.panel(
            full_name(load),
            _said(comparison, load),
            x_axis,
            y_axis,
            lines,
            markers=False,
        )
        for load, lines in curves.items()
    ]
    return section(
        "latency",
        "Latency of a saturated broker",
        paragraph(
            "In a closed loop, each side runs as fast as it can, at its own rate. So these latencies follow from the "
            "rates (requests in flight / rate) and do not compare waits at the same pace. The curves show the share of "
            "requests that were answered within a time after they were sent, in untraced runs. A curve further left is "
            "better. Time is logarithmic, and the vertical axis has equal distances between 90 %, 99 % and 99.9 %, so "
            "that the tail is readable. A line ends where fewer than ten requests lie beyond it."
        ),
        _latency_forest(comparison),
        mode_legend(comparison, brokers(comparison)),
        *_panels(drawings, _PANELS_OPEN, "Curves of the other loads"),
        details("Percentiles as a table", latency_table(comparison, curves)),
    )


_LOADS_DRAWN_MAX = 24


def _latency_forest(comparison: Comparison) -> Markup:
    ratios = comparison.latency_ratios["p99"]
    if not ratios:
        return paragraph("No round has enough samples for a p99 on both sides, so p99 has no ratio.")
    zero, one = comparison.sides
    title = f"p99 of {one} over {zero} in a closed loop, every load; left of the line: a shorter wait"
    note = (
        "Ratios are geometric means of paired rounds, with 95% intervals. A round has a p99 only if "
        f"{SAMPLES_BEYOND_IN_RUN_MIN} requests or more lie beyond it. A ratio has a colour only if it differs beyond "
        "chance, also after Holm's correction for all loads of an experiment."
    )
    # A ratio below 1 is better here, so the colours are those of the other side.
    drawing = forest(title, [(full_name(load), ratio) for load, ratio in ratios.items()], note, is_less_better=True)
    return drawing if len(ratios) <= _LOADS_DRAWN_MAX else details(f"All {len(ratios)} loads, one by one", drawing)


def distribution(comparison: Comparison, load: Load, title: str) -> Markup:
    """Return the latency curve of one load in both modes, with an axis of its own."""
    lines = [_curve(comparison, Cell(mode, load)) for mode in modes(comparison)]
    values = [x for line in lines for x, _ in line.points]
    x_axis = charts.log_axis("latency from the due time, ms", values, lambda value: f"{value:g}")
    return charts.panel(title, _said(comparison, load), x_axis, tail_axis(), lines, markers=False)


def _panels(drawings: list[Markup], shown: int, others: str) -> list[Markup]:
    found = [charts.panels(drawings[:shown])]
    if len(drawings) > shown:
        found.append(details(others, charts.panels(drawings[shown:])))
    return found


def tail_axis() -> charts.Axis:
    """Return the vertical axis of latency curves, with equal distances between 0, 90, 99, 99.9 and 99.99 %."""
    ticks = ((0.0, "0 %"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %"))
    return charts.Axis("", 0.0, 1 - 10**-_TAIL_END, ticks, kind="tail")


def _curve(comparison: Comparison, cell: Cell) -> charts.Line:
    curve = comparison.figures.curves.get(cell)
    points = []
    if curve is not None:
        points = [
            (max(value, 1) / 1000, share)
            for share, value in zip(CURVE, curve.values_us, strict=True)
            if enough_samples(curve.samples, share)
        ]
    return charts.Line(mode_kind(comparison, cell.mode), cell.mode, tuple(points))


def _said(comparison: Comparison, load: Load) -> str:
    cells = [comparison.cells[key] for mode in brokers(comparison) if (key := Cell(mode, load)) in comparison.cells]
    return "; ".join(f"{c.cell.mode}: p50 {milliseconds(c.p50_ms)}, p99 {milliseconds(c.p99_ms)}" for c in cells)


_ABLATION_NAMES = {
    "mute-off": "mute off only (many in flight, commit per request)",
    "group-commit": "group commit only (one in flight)",
    "own-queues": "own queues only (a queue for each handler)",
    "both": "mute off and group commit",
}


def ablation(comparison: Comparison) -> Markup:
    if not comparison.ablation:
        return NOTHING
    drawings = []
    for load in dict.fromkeys(key.load for key in comparison.ablation):
        own = [key.mode for key in comparison.ablation if key.load == load]
        entries = []
        for mode in dict.fromkeys((*ABLATION_MODES, *own, comparison.sides[1])):
            ratio = _over_classic(comparison, Cell(mode, load))
            if ratio is not None:
                rate = persecond(comparison.cells[Cell(mode, load)].requests_per_s)
                entries.append((f"{_ABLATION_NAMES.get(mode, mode)}, {rate}", ratio))
        if entries:
            title = f"Requests per second over classic, {full_name(load)}"
            note = "Dot: geometric mean of paired rounds; line: 95% interval; dotted line: as fast as classic."
            drawings.append(forest(title, entries, note))
    return section(
        "ablation",
        "Ablation: the gain of each part of the mode",
        paragraph(
            "The pipelined mode differs from the classic one in three ways: many requests of a connection in flight, "
            "one commit for all waiting requests, and several queues. This section compares classic with modes that "
            "have one of these parts, or the first two. On one event loop, several queues isolate connections, but do "
            "not make the broker faster."
        ),
        *drawings,
        _ablation_table(comparison),
    )


def _over_classic(comparison: Comparison, key: Cell) -> Ratio | None:
    if comparison.ablation.get(key) is not None:
        return comparison.ablation[key]
    return comparison.speedups.get(key.load) if comparison.sides == ("classic", key.mode) else None


def _ablation_table(comparison: Comparison) -> Markup:
    rows = []
    for key, ratio in comparison.ablation.items():
        cell = comparison.cells[key]
        latencies = (milliseconds(cell.p50_ms), milliseconds(cell.p99_ms))
        rows.append([key.mode, describe(key.load), persecond(cell.requests_per_s), *ratio_cells(ratio), *latencies])
    head = ["Mode", "Load", "Rate", "Over classic", "95% interval", "p50", "p99"]
    return details("All figures as a table", table("Ablation, each mode over classic", head, rows, texts=2))
