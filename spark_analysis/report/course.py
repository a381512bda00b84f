"""The sections over time: the requests of one connection, and rates and latencies over a run.

Lanes start with the first shown request, series with the first request of the run.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from spark_analysis.cells import Cell, Load
from spark_analysis.report import charts
from spark_analysis.report.common import PARTS, STAGE_WORDS, focus, mode_kind, mode_legend, modes
from spark_analysis.report.markup import NOTHING, Markup, details, figure, legend, paragraph, section
from spark_analysis.words import describe

if TYPE_CHECKING:
    from spark_analysis.inside_figures import ClientPoint, LaneRequest, StagePoint
    from spark_analysis.summary import Comparison

_STAGES_DRAWN: Final = {"Total": "total", "CommitWait": "s3", "RequestQueue": "s1", "ResponseOrderWait": "s5"}
_LEAST_MS: Final = 0.001  # stamps are whole microseconds; a logarithmic axis has no 0


def lanes(comparison: Comparison) -> Markup:
    by_run: dict[int, list[LaneRequest]] = {}
    for request in comparison.figures.inside.lanes:
        by_run.setdefault(request.run, []).append(request)
    drawings = []
    for load in focus(comparison):
        for mode in modes(comparison):
            for run in comparison.figures.runs:
                if run.cell == Cell(mode, load) and run.number in by_run:
                    drawings.append(_lanes(mode, load, by_run[run.number]))
                    break
    if not drawings:
        return NOTHING
    return section(
        "lanes",
        "One connection, request by request",
        paragraph(
            "Each drawing shows consecutive requests of the busiest connection of a traced run. They surround the "
            "request that waited longest for earlier responses. If none waited, they are from the middle of the run. "
            "Each request has a row, the oldest on top. All requests of a connection use one request queue (shard). A "
            "classic broker reads the next request after it has answered the previous one, so the bars form a "
            "staircase. In pipelined mode the bars overlap, and their right ends never step back: responses leave in "
            "the order of the requests."
        ),
        legend((kind, name) for name, kind in PARTS.items()),
        charts.panels(drawings, pairs=True),
    )


def _lanes(mode: str, load: Load, requests: list[LaneRequest]) -> Markup:
    first_ns = min(request.received_ns for request in requests)
    rows = [
        charts.Lane(
            f"{request.sequence}",
            f"request {request.sequence}, commit {request.commit}, {request.depth} requests in flight at its arrival",
            tuple(((a - first_ns) / 1e6, (b - first_ns) / 1e6, kind) for a, b, kind in _pieces(request)),
        )
        for request in requests
    ]
    orderly = all(a.released_ns <= b.released_ns for a, b in pairwise(requests))
    order = "released in order" if orderly else "RELEASED OUT OF ORDER"
    title = f"{mode}, {describe(load)}: connection {requests[0].connection}, queue {requests[0].queue}"
    description = f"{len(requests)} consecutive requests, one per row, {order}"
    return charts.lanes(title, description, "ms since the first request was received", rows)


def _pieces(request: LaneRequest) -> list[tuple[int, int, str]]:
    submitted = request.decided_ns if request.submitted_ns is None else request.submitted_ns
    durable = submitted if request.durable_ns is None else request.durable_ns
    stamps = (
        request.received_ns,
        request.dequeued_ns,
        submitted,
        durable,
        request.completed_ns,
        request.released_ns,
        request.send_started_ns,
        request.sent_ns,
    )
    return [
        (began, ended, kind)
        for began, ended, kind in zip(stamps, stamps[1:], PARTS.values(), strict=False)
        if ended > began
    ]


def series(comparison: Comparison) -> Markup:
    clients: dict[int, list[ClientPoint]] = {}
    for point in comparison.figures.inside.series:
        clients.setdefault(point.run, []).append(point)
    drawings = [drawing for load in focus(comparison) for drawing in _client_panels(comparison, load, clients)]
    if not drawings:
        return NOTHING
    return section(
        "series",
        "Over time",
        paragraph(
            "The charts divide the first untraced run of each mode into equal intervals of time. A level line is a "
            "steady state. A slope means that a longer run would give a different result. A single peak suggests that "
            "another program disturbed the run."
        ),
        mode_legend(comparison),
        charts.panels(drawings, pairs=True),
        _stage_details(comparison),
    )


def _client_panels(comparison: Comparison, load: Load, clients: dict[int, list[ClientPoint]]) -> list[Markup]:
    shown: dict[str, list[ClientPoint]] = {}
    for mode in modes(comparison):
        numbers = [run.number for run in comparison.figures.runs if run.cell == Cell(mode, load) and not run.traced]
        points = next((clients[number] for number in numbers if number in clients), [])
        if points:
            shown[mode] = points[:-1] or points  # the last bucket is shorter and would look like a collapse
    if not shown:
        return []
    end = max(point.at_ms + point.bucket_ms for points in shown.values() for point in points)
    x_axis = charts.linear_axis("ms of the run", end, lambda value: f"{value:g}")
    rates = {mode: [(_middle(point), point.requests_per_s) for point in points] for mode, points in shown.items()}
    tails = {
        mode: [(_middle(point), max(point.p99_us / 1000, _LEAST_MS)) for point in points]
        for mode, points in shown.items()
    }
    panels = []
    for title, name, values in (("Rate", "requests per second", rates), ("p99", "p99, ms", tails)):
        lines = [charts.Line(mode_kind(comparison, mode), mode, tuple(along)) for mode, along in values.items()]
        y_axis = charts.log_axis(name, [y for line in lines for _, y in line.points], charts.short)
        description = f"{name} over the time of one run per mode"
        panels.append(charts.panel(f"{title}, {describe(load)}", description, x_axis, y_axis, lines, markers=False))
    return panels


def _middle(point: ClientPoint) -> float:
    return point.at_ms + point.bucket_ms / 2


def _stage_details(comparison: Comparison) -> Markup:
    by_run: dict[int, list[StagePoint]] = {}
    for point in comparison.figures.inside.stage_series:
        by_run.setdefault(point.run, []).append(point)
    drawings = []
    for load in focus(comparison):
        for mode in modes(comparison):
            numbers = [run.number for run in comparison.figures.runs if run.cell == Cell(mode, load)]
            points = next((by_run[number] for number in numbers if number in by_run), [])
            if points:
                drawings.append(_stage_panel(f"{mode}, {describe(load)}", points))
    if not drawings:
        return NOTHING
    keys = legend((kind, STAGE_WORDS[stage]) for stage, kind in _STAGES_DRAWN.items())
    panels = figure("Mean time of four parts over a traced run", keys, charts.panels(drawings, pairs=True))
    return details("Stages over time", panels)


def _stage_panel(title: str, points: list[StagePoint]) -> Markup:
    lines = [
        charts.Line(
            kind,
            STAGE_WORDS[stage],
            tuple(
                (point.at_ms, max(point.mean_us / 1000, _LEAST_MS))
                for point in points
                if point.stage == stage and point.mean_us is not None
            ),
        )
        for stage, kind in _STAGES_DRAWN.items()
    ]
    lines = [line for line in lines if line.points]
    x_axis = charts.linear_axis(
        "ms of the run", max(point.at_ms for point in points) or 1.0, lambda value: f"{value:g}"
    )
    y_axis = charts.log_axis("mean, ms", [y for line in lines for _, y in line.points], charts.short)
    return charts.panel(title, "Mean time of stages over the run", x_axis, y_axis, lines, markers=False)
