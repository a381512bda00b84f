"""The section about money: what each mode asks a store of objects for, and what that costs.

Rules: as in `overview`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_analysis.report.markup import NOTHING, Markup, paragraph, section, table
from spark_analysis.words import DASH, describe, duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_analysis.costs import StoreCost
    from spark_analysis.interval import Estimate
    from spark_analysis.summary import CellFigures, Comparison


def cost(comparison: Comparison) -> Markup:
    """Requests to the store and their price, beside the latency that they have; nothing without a store."""
    costs, prices = comparison.store_costs, comparison.prices
    if not costs:
        return NOTHING
    rows = [_row(measured, costs[cell]) for cell, measured in comparison.cells.items() if cell in costs]
    unsure = sum(run.unsure for found in costs.values() for run in found.runs)
    failed = sum(run.failed for found in costs.values() for run in found.runs)
    head = [
        "Load",
        "Mode",
        "Requests/s",
        "p50",
        "PUT, p50",
        "PUTs/s",
        "Requests a PUT",
        "PUTs a GB",
        "$ a GB",
        "$ a month",
    ]
    return section(
        "cost",
        "What the store costs",
        paragraph(
            "The journal of both modes is in a store of objects: a commit is a PUT. So the mode decides not only how "
            "long a client waits, but how many requests are paid for. Counted is what the broker asked its store for "
            "in traced rounds while it was driven, archive and lease included, with 95% intervals over these rounds; "
            "rates and p50 are those of the untraced ones. There is no bound on PUTs a second here "
            "(wal.puts.per.second is 0): a pace would cap the bill of the pipelined mode, and be what is measured."
        ),
        paragraph(
            f"Prices: ${prices.put:g} for a million PUTs and LISTs, ${prices.get:g} for a million GETs; a GB is one of "
            "record batches. A month is one of this load without a pause. What is stored costs the same in every mode "
            f"and is left out. Requests without a sure answer: {unsure}; without an answer: {failed}."
        ),
        table("Requests to the store and their price, by load and mode", head, rows, texts=2),
    )


def _row(measured: CellFigures, found: StoreCost) -> list[str]:
    wait = [run.put_p50_us for run in found.runs if run.put_p50_us is not None]
    return [
        describe(measured.cell.load),
        measured.cell.mode,
        DASH if measured.requests_per_s is None else f"{measured.requests_per_s:,.0f}",
        DASH if measured.p50_ms is None else f"{measured.p50_ms:,.1f} ms",
        duration(sum(wait) / len(wait)) if wait else DASH,
        _said(found.puts_per_s, lambda value: f"{value:,.1f}"),
        _said(found.requests_per_put, lambda value: f"{value:,.1f}"),
        _said(found.puts_per_gb, lambda value: f"{value:,.0f}"),
        _said(found.dollars_per_gb, _dollars),
        _said(found.dollars_per_month, lambda value: f"${value:,.0f}"),
    ]


def _said(estimate: Estimate | None, write: Callable[[float], str]) -> str:
    if estimate is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return write(estimate.value)
    return f"{write(estimate.value)} ({write(estimate.low)} to {write(estimate.high)})"


def _dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"
