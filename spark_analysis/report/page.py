"""The page: one HTML file that needs no network.

The sections answer the reader's questions in order: the result, its size, its reasons, its limits, its reliability, the
method. The contents are below the decisions and stay visible from there. Styles and scripts are inlined. Scripts only
let charts answer a pointer, and unfold the page for printing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from pipeline_charts import SCRIPT, STYLE, read_chart_file
from spark_analysis.report import cost, course, curves, effects, equal_load, flow, inside, method, model, overview
from spark_analysis.report.markup import Markup, piece

if TYPE_CHECKING:
    from spark_analysis.run_quality import RunQuality
    from spark_analysis.summary import Comparison

_NAMES = {
    "summary": "Summary",
    "missing": "What is missing",
    "equal": "Latency at equal load",
    "ordinary": "Ordinary clients",
    "consumers": "Consumers",
    "others": "Other brokers",
    "factors": "Factors",
    "throughput": "Throughput",
    "latency": "Latency, saturated",
    "stages": "Stages",
    "lanes": "One connection",
    "series": "Over time",
    "ablation": "Ablation",
    "commits": "Commits",
    "cost": "Cost",
    "shards": "Queues",
    "flow": "Flow",
    "model": "Prediction",
    "replay": "Replay",
    "unpaying": "Where it is not proven faster",
    "noise": "Can it be trusted?",
    "audit": "Order",
    "tracing": "Cost of tracing",
    "method": "Method",
    "reproduce": "Reproduce",
    "machine": "Machine",
    "words": "Words",
}


def render(comparison: Comparison, quality: RunQuality, directory: str) -> str:
    """Return the whole page as HTML.

    Args:
        directory: the directory of the experiment, for the command that makes the page again.
    """
    sections = _sections(comparison, quality, directory)
    scripts = [read_chart_file(SCRIPT).decode(), _own_file("pointed_charts.js")]
    zero, one = comparison.sides
    title = f"{zero} against {one}" if zero != one else f"{one} against itself"
    requests = sum(cell.requests for cell in comparison.cells.values())
    counts = f"{len(comparison.figures.runs)} runs, {requests:,} measured requests"
    origin, durability = method.origin(comparison), method.durability(comparison)
    return piece(
        "page",
        title=title,
        kind=quality.light.name.lower(),
        where=f"A Kafka-compatible broker, one machine, {counts}{origin and f'; {origin}'}. {durability}",
        policy=Markup(_policy(scripts)),  # it contains no characters to escape
        style=Markup(_style()),
        first=sections[0],
        contents=_contents(sections),
        sections=sections[1:],
        scripts=list(map(Markup, scripts)),
    )


def _sections(comparison: Comparison, quality: RunQuality, directory: str) -> list[Markup]:
    return [
        overview.summary(comparison, quality),
        overview.missing(comparison),
        equal_load.equal_load(comparison, quality),
        overview.ordinary_clients(comparison, quality),
        equal_load.consumers(comparison, quality),
        overview.others(comparison, quality),
        effects.factors(comparison),
        curves.throughput(comparison, quality),
        curves.latency(comparison),
        inside.stages(comparison),
        course.lanes(comparison),
        course.series(comparison),
        curves.ablation(comparison),
        inside.commits(comparison),
        cost.cost(comparison),
        flow.shards(comparison),
        flow.flow(comparison),
        model.model(comparison),
        equal_load.replay(comparison, quality),
        overview.where_not(comparison, quality),
        overview.noise(comparison, quality),
        inside.audit(comparison),
        inside.tracing(comparison),
        method.method(comparison),
        method.reproduce(comparison, directory),
        method.machine(comparison),
        method.words(),
    ]


def _policy(scripts: list[str]) -> str:
    """Return the Content-Security-Policy of the page: it loads nothing, and runs only these scripts."""
    # The data on the page comes from traces; the policy keeps injected scripts from running.
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"


def _style() -> str:
    return read_chart_file(STYLE).decode() + _own_file("style.css")


def _own_file(name: str) -> str:
    return (files("spark_analysis.report") / name).read_text(encoding="utf-8")


def _contents(sections: list[Markup]) -> list[tuple[str, str]]:
    found = [match.group(1) for part in sections if (match := re.search(r'<section id="([a-z]+)"', part))]
    return [(name, _NAMES[name]) for name in found]
