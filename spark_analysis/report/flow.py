"""The sections about flow: balance of the queues, Little's law, and spans in which connections were not read.

Drawings show the first traced run of a cell, tables show all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_analysis.report import charts
from spark_analysis.report.common import focus, mode_kind
from spark_analysis.report.markup import NOTHING, Markup, details, figure, paragraph, section, table
from spark_analysis.words import DASH, describe, duration, times

if TYPE_CHECKING:
    from spark_analysis.cells import Cell
    from spark_analysis.inside_figures import Flow, Imbalance
    from spark_analysis.summary import Comparison

STEADY: Final = 0.1
"""Largest relative difference in Little's law that the requests at both ends of the window can explain."""
_FEW_INSIDE: Final = 0.1  # with fewer requests in a stage on average, a relative difference means nothing


def cells_of_runs(comparison: Comparison) -> dict[int, Cell]:
    return {run.number: run.cell for run in comparison.figures.runs}


def shards(comparison: Comparison) -> Markup:
    cells = cells_of_runs(comparison)
    places = {cell: place for place, cell in enumerate([*comparison.cells, *comparison.cells_of_noise])}
    found = [(cells[part.run], part) for part in comparison.figures.inside.shards if part.run in cells]
    if not found:
        return NOTHING
    found.sort(key=lambda pair: places[pair[0]])
    first = dict(reversed(found))
    several = [(cell, part) for cell, part in found if part.queues > 1 and first[cell] is part]
    return section(
        "shards",
        "Balance of the request queues",
        paragraph(
            "A hash of its id assigns each connection to one queue. So a few connections may leave queues unused, and "
            "two busy connections may share one. “Most over mean” is the load of the busiest queue over the mean load. "
            "The Gini coefficient is 0 if all queues have the same load. It approaches 1 if one of many queues has the "
            "whole load. Compare the p99 of the busiest queue with that of the others: if they agree, imbalance costs "
            "little."
        ),
        *_shard_figures(comparison, several),
        _shard_table(found),
    )


def _shard_figures(comparison: Comparison, found: list[tuple[Cell, Imbalance]]) -> list[Markup]:
    wanted = focus(comparison)
    entries = [
        charts.Bar(
            f"{cell.mode}, {describe(cell.load)}",
            f"{part.most_over_mean:.1f}x the mean of {part.queues} queues, Gini {part.gini:.2f}",
            0,
            part.most_over_mean / max(part.queues, 1),
            mode_kind(comparison, cell.mode),
        )
        for cell, part in found
        if cell.load in wanted
    ]
    if not entries:
        return []
    title = "Load of the busiest queue over the mean; a full bar means that one queue has all requests"
    return [figure(title, charts.bars(title, entries))]


def _shard_table(found: list[tuple[Cell, Imbalance]]) -> Markup:
    rows = [
        [
            describe(cell.load),
            cell.mode,
            f"run {part.run}",
            f"{part.used_queues} of {part.queues}",
            f"{part.requests:,}",
            times(part.most_over_mean),
            f"{part.gini:.3f}",
            duration(part.busiest_p99_us),
            duration(part.others_p99_us),
        ]
        for cell, part in found
    ]
    head = [
        "Load",
        "Mode",
        "Run",
        "Queues used",
        "Requests",
        "Most over mean",
        "Gini",
        "p99, busiest",
        "p99, worst other",
    ]
    return details("All traced runs as a table", table("Balance of the request queues", head, rows, texts=3))


def flow(comparison: Comparison) -> Markup:
    cells = cells_of_runs(comparison)
    found = [(cells[part.run], part) for part in comparison.figures.inside.flow if part.run in cells and part.entered]
    spans = _spans_table(comparison)
    if not found:
        return spans and section("flow", "Flow", spans)
    wide = [abs(_share(part)) for _, part in found if max(part.expected, part.measured) >= _FEW_INSIDE]
    steady = sum(share <= STEADY for share in wide)
    result = (
        f"The law holds within {STEADY:.0%} in {steady:,} of {len(wide):,} stages with requests; the largest "
        f"difference is {max(wide):.1%}."
        if wide
        else "No stage has at least a tenth of a request on average, so the law cannot be checked."
    )
    rows = [
        [
            describe(cell.load),
            cell.mode,
            f"run {part.run}",
            part.stage,
            f"{part.rate_per_s:,.0f}/s",
            duration(part.wait_us),
            f"{part.expected:.2f}",
            f"{part.measured:.2f}",
            f"{_share(part):+.1%}" if max(part.expected, part.measured) >= _FEW_INSIDE else DASH,
        ]
        for cell, part in found
    ]
    head = ["Load", "Mode", "Run", "Stage", "Rate", "Wait, mean", "Rate x wait", "Measured", "Difference"]
    caption = "Requests in a stage: rate x mean wait of the requests that enter it, and the average count over time"
    return section(
        "flow",
        "Flow: does Little's law hold?",
        paragraph(
            "In a steady state, the average number of requests in a stage is the rate at which requests enter it times "
            "their mean wait. This section compares the counted number with this product. The two values come from "
            "different rows in the middle of each traced run. If they differ, the load was not steady, or the stamps "
            "are wrong."
        ),
        paragraph(result),
        details("All stages as a table", table(caption, head, rows, texts=4)),
        spans,
    )


def _share(part: Flow) -> float:
    most = max(part.expected, part.measured)
    return part.difference / most if most else 0.0


def _spans_table(comparison: Comparison) -> Markup:
    cells = cells_of_runs(comparison)
    rows = [
        [
            describe(cells[part.run].load),
            cells[part.run].mode,
            f"run {part.run}",
            part.reason,
            f"{part.spans:,}",
            f"{part.connections:,}",
            DASH if part.share is None else f"{part.share:.1%}",
            duration(part.p50_us),
            duration(part.p99_us),
            duration(part.most_us),
        ]
        for part in comparison.figures.inside.spans
        if part.run in cells
    ]
    if not rows:
        return NOTHING
    head = ["Load", "Mode", "Run", "Reason", "Spans", "Connections", "Share of time", "p50", "p99", "Longest"]
    caption = "Spans in which connections were not read; the reason “any” covers all reasons and counts overlaps once"
    return details("Mutes and throttles as a table", table(caption, head, rows, texts=4))
