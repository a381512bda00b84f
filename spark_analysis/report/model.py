"""The section with predictions: bounds beside measurements, and the capacity model with its errors.

Extrapolated numbers have a label. A model is shown only if it was tested on cells that it was not fitted to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_analysis.capacity import (
    COMMITS_AT_ONCE,
    DELAYS_MS,
    Capacity,
    Errors,
    Measured,
    capacity,
    commit_bound,
    gain_bound,
)
from spark_analysis.cells import Cell, Load
from spark_analysis.report import charts
from spark_analysis.report.common import (
    loads_of,
    mode_kind,
    mode_legend,
    modes,
    native_closed,
    ratio_cell,
)
from spark_analysis.report.markup import NOTHING, Markup, block, details, figure, paragraph, section, table
from spark_analysis.tables import RAW_CLIENT
from spark_analysis.words import DASH, duration, full_name, ordinary, persecond, times

if TYPE_CHECKING:
    from spark_analysis.summary import Comparison

_DEPTH = 5  # requests in flight of ordinary clients
ERROR_MAX = 0.3
"""Limit of the median error on unseen cells. The page greys out a model above it and says why."""


def model(comparison: Comparison) -> Markup:
    bounds = _bounds(comparison)
    fitted = {mode: found for mode in modes(comparison) if (found := fitted_capacity(comparison, mode)) is not None}
    if not bounds and not fitted:
        return NOTHING
    return section(
        "model",
        "What arithmetic predicts",
        paragraph(
            "In a mode that answers one request at a time, the rate of a connection is at most 1 / commit time. With "
            "pipelining, all requests that a client keeps in flight can share one commit, so the gain is at most the "
            f"number of requests in flight: {_DEPTH} for ordinary clients. If the measured gain is far below this "
            "bound, the processor or the client limits the rate."
        ),
        bounds,
        *_capacity(comparison, fitted),
    )


def _bounds(comparison: Comparison) -> Markup:
    zero, one = comparison.sides
    rows = []
    for load in loads_of(comparison, lambda load: not load.open_loop):
        commits = comparison.figures.commits.get(Cell(zero, load))
        cell = comparison.cells.get(Cell(zero, load))
        ratio = comparison.speedups.get(load)
        if zero == one or (ratio is None and commits is None):
            continue
        commit_us = commits.commit_p50_us if commits is not None else None
        bound = commit_bound(load.connections, commit_us)
        rate = cell.requests_per_s if cell is not None else None
        rows.append(
            [
                full_name(load),
                duration(commit_us),
                persecond(bound),
                persecond(rate) if load.client == RAW_CLIENT else DASH,
                f"{rate / bound:.0%}" if rate and bound and load.client == RAW_CLIENT else DASH,
                f"{gain_bound(load.in_flight, ordinary=ordinary(load))}x",
                ratio_cell(ratio),
            ]
        )
    if not rows:
        return NOTHING
    head = ["Load", f"Commit of {zero}, p50", "Bound", f"{zero}, rate", "Reached", "Bound of gain", "Gain"]
    caption = (
        f"Bound: connections / commit time of {zero} (traced run). A request of an ordinary client has many messages, "
        "so its rate is not compared with the bound, and larger batches can gain more than the bound of gain"
    )
    return details("Bounds beside measurements, as a table", table(caption, head, rows))


def outstanding(comparison: Comparison, mode: str, load: Load) -> int:
    """Return the number of requests that one commit of a mode can include under a load."""
    run = next((run for run in comparison.figures.runs if run.cell.mode == mode), None)
    factors: dict[str, Any] = {} if run is None else {**_presets(mode), **run.factors}
    depth = factors.get("in_flight_max")
    most = load.in_flight if not isinstance(depth, int) or depth < 1 else min(depth, load.in_flight)
    # With a commit per request, a handler waits for each commit, so at most as many commits run as there are handlers.
    if factors.get("commit") == "request":
        threads = run.settings.get("num.io.threads") if run is not None else None
        return min(load.connections * most, int(threads) if threads and str(threads).isdigit() else COMMITS_AT_ONCE)
    return load.connections * most


def _presets(mode: str) -> dict[str, Any]:
    """Return the axes that the name of a mode implies, for runs that do not record them."""
    return {"in_flight_max": 1, "commit": "request"} if mode == "classic" else {}


def fitted_capacity(comparison: Comparison, mode: str) -> Capacity | None:
    """Return the model of a mode, fitted to the native client's cells without further factors.

    Returns None if there are too few cells.
    """
    cells = [
        Measured(outstanding(comparison, mode, key.load), key.load.commit_delay_ms, cell.requests_per_s)
        for key, cell in comparison.cells.items()
        if key.mode == mode and native_closed(key.load) and not key.load.variant and cell.requests_per_s
    ]
    return capacity(cells)


def _capacity(comparison: Comparison, fitted: dict[str, Capacity]) -> list[Markup]:
    tested = {mode: found for mode, found in fitted.items() if found.held_out is not None}
    if not tested:
        return []
    rows = [
        [
            mode,
            f"{found.cells}",
            duration(found.model.fixed_ms * 1000),
            f"{found.model.cost_ms * 1000:.1f} \N{MICRO SIGN}s",
            f"{found.model.commits:.2f}",
            *(_errors_cell(errors) for errors in (found.inside, found.held_out, found.longer_delay)),
        ]
        for mode, found in tested.items()
    ]
    head = ["Mode", "Cells", "Fixed", "Each request", "Delays per cycle", "Error, fitted", "Held out", "Longest delay"]
    return [
        paragraph(
            "In the capacity model, the time of a cycle is a fixed time, plus a cost for each request of the cycle, "
            "plus a number of commit delays. The rate is the requests per cycle over the cycle time. The model "
            "assumes a closed loop that keeps the broker busy, a slower disk that only adds a constant delay to each "
            "commit, and spare bandwidth. The table shows the median and the worst relative error in three cases: for "
            "the fitted cells, for each cell predicted from the other cells (held out), and for the cells with the "
            "longest delay, predicted from those with shorter delays."
        ),
        table("The model and its errors", head, rows),
        *_extrapolated(comparison, tested),
    ]


def _errors_cell(errors: Errors | None) -> str:
    if errors is None:
        return DASH
    return f"{errors.middle:.0%}, worst {errors.most:.0%}"


def _extrapolated(comparison: Comparison, fitted: dict[str, Capacity]) -> list[Markup]:
    loads = loads_of(comparison, lambda load: native_closed(load) and not load.variant)
    depths = sorted({min(_DEPTH, max(load.in_flight for load in loads)), max(load.in_flight for load in loads)})
    zero, one = comparison.sides
    rows = []
    for delay in DELAYS_MS:
        for depth in depths:
            load = Load(RAW_CLIENT, 1, depth, delay)
            rates = [_predicted(comparison, fitted, mode, load) for mode in modes(comparison)]
            ratio = rates[1] / rates[0] if len(rates) == 2 and rates[0] and rates[1] else None
            measured = comparison.speedups.get(load)
            gains = [times(ratio) if ratio else DASH, ratio_cell(measured)]
            rows.append([f"{delay:g} ms", f"{depth}", *(persecond(rate) for rate in rates), *gains])
    head = ["Commit delay", "In flight", *(f"{mode}, model" for mode in modes(comparison)), "Gain, model", "Measured"]
    caption = f"Extrapolated to slower disks and object stores, one connection; {one} over {zero}"
    drawings = [_panel(comparison, fitted, depth) for depth in depths]
    wrong = unreliable(fitted)
    shown = [
        figure("Rate by commit delay: lines are the model, marks are measured", mode_legend(comparison)),
        charts.panels(drawings, pairs=True),
        table(caption, head, rows, texts=2, grey=range(len(rows)) if wrong else ()),
    ]
    if not wrong:
        return shown
    warning = (
        f"Do not use these predictions: on unseen cells, the model of {' and of '.join(wrong)} has a median error "
        f"above {ERROR_MAX:.0%}. They are grey and folded, to show where the model fails."
    )
    return [
        paragraph(warning),
        block(details("The predictions of a wrong model", *shown), class_="doubtful"),
    ]


def unreliable(fitted: dict[str, Capacity]) -> list[str]:
    """Return the modes whose model has too large an error, held out or at the longest delay."""
    return [
        mode
        for mode, found in fitted.items()
        if any(errors is not None and errors.middle > ERROR_MAX for errors in (found.held_out, found.longer_delay))
    ]


def _predicted(comparison: Comparison, fitted: dict[str, Capacity], mode: str, load: Load) -> float | None:
    found = fitted.get(mode)
    if found is None:
        return None
    return found.model.rate(outstanding(comparison, mode, load), load.commit_delay_ms)


def _panel(comparison: Comparison, fitted: dict[str, Capacity], depth: int) -> Markup:
    lines = []
    for mode in modes(comparison):
        kind = mode_kind(comparison, mode)
        if mode in fitted:
            predicted = [
                (delay, _predicted(comparison, fitted, mode, Load(RAW_CLIENT, 1, depth, delay))) for delay in DELAYS_MS
            ]
            along = tuple((delay, rate) for delay, rate in predicted if rate)
            lines.append(charts.Line(kind, f"{mode}, model", along))
        marks = [
            (key.load.commit_delay_ms, cell.requests_per_s)
            for key, cell in comparison.cells.items()
            if key.mode == mode
            and key.load[:3] == (RAW_CLIENT, 1, depth)
            and not key.load.open_loop
            and key.load.commit_delay_ms
            and cell.requests_per_s
        ]
        if marks:
            lines.append(charts.Line(kind, f"{mode}, measured", tuple(marks), drawn=False, marked=True))
    x_axis = charts.log_axis(
        "commit delay, ms", [x for line in lines for x, _ in line.points], lambda value: f"{value:g}"
    )
    y_axis = charts.log_axis("requests per second", [y for line in lines for _, y in line.points], charts.short)
    title = f"1 connection x {depth} in flight"
    return charts.panel(title, "Rate by commit delay, model and measurements", x_axis, y_axis, lines, markers=False)
