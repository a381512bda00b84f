"""The section about the costs of an object store."""

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
        "Requests per PUT",
        "PUTs per GB",
        "$ per GB",
        "$ per month",
    ]
    return section(
        "cost",
        "What the store costs",
        paragraph(
            "The journal of both modes is in an object store: a commit is a PUT. So the mode affects the client's "
            "latency and also the number of paid requests. The table counts the requests that the broker sent to its "
            "store under load in traced rounds, including those of its archive and its lease. The 95% intervals are "
            "over these rounds. Rates and p50 come from untraced rounds. This experiment does not limit PUTs per "
            "second (wal.puts.per.second is 0): a limit would cap the costs of the pipelined mode and distort the "
            "comparison."
        ),
        paragraph(
            f"Prices: ${prices.put:g} for a million PUTs and LISTs, ${prices.get:g} for a million GETs. A GB is a "
            "gigabyte of record batches. Costs per month assume this load without a pause. Storage itself costs the "
            "same in every mode and is left out. Requests to the store with an unknown outcome: "
            f"{unsure}; requests without an answer: {failed}."
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
        _with_interval(found.puts_per_s, lambda value: f"{value:,.1f}"),
        _with_interval(found.requests_per_put, lambda value: f"{value:,.1f}"),
        _with_interval(found.puts_per_gb, lambda value: f"{value:,.0f}"),
        _with_interval(found.dollars_per_gb, _dollars),
        _with_interval(found.dollars_per_month, lambda value: f"${value:,.0f}"),
    ]


def _with_interval(estimate: Estimate | None, write: Callable[[float], str]) -> str:
    if estimate is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return write(estimate.value)
    return f"{write(estimate.value)} ({write(estimate.low)} to {write(estimate.high)})"


def _dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"
