"""The sections for somebody in a hurry: summary, ordinary clients, and where the second mode does not pay.

Rules: each section is a function of the comparison that returns a section, or nothing where the experiment has no such
part; a section without data says so in one sentence only where its absence would surprise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_analysis.cells import Cell, Load
from spark_analysis.findings import (
    OTHER_NAMES,
    describe,
    full_name,
    interval,
    judgement,
    milliseconds,
    ordinary,
    times,
    unpaying,
    verdict_sentences,
)
from spark_analysis.gaps import gaps
from spark_analysis.report.common import ARROW, focus, forest, load_table, loads_of, persecond, ratio_cells
from spark_analysis.report.markup import NOTHING, Markup, details, element, paragraph, section, table, text
from spark_analysis.tables import RAW_CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_analysis.interval import Ratio
    from spark_analysis.summary import Comparison

LOADS_SHOWN_MAX: Final = 24
"""A sweep of more loads has them folded: what somebody reads who has a minute is no list of hundreds."""


def summary(comparison: Comparison) -> Markup:
    """What somebody reads who has a minute."""
    tiles = [*_ratio_tiles(comparison), *_tail_tile(comparison), _order_tile(comparison)]
    return section(
        "summary",
        "Summary",
        *(paragraph(sentence, class_="verdict") for sentence in verdict_sentences(comparison)),
        element("div", *tiles, class_="tiles"),
        _forest(comparison),
    )


def _tile(figure_text: str, name: str, more: str, tone: str = "") -> Markup:
    return element(
        "div",
        element("b", text(figure_text)),
        element("span", text(name)),
        element("span", text(more), class_="soft"),
        class_=f"tile {tone}".strip(),
    )


def _ratio_tiles(comparison: Comparison) -> list[Markup]:
    tiles = []
    ratios = comparison.speedups
    for name, wanted in (
        ("ordinary client, throughput", ordinary),
        ("native client, throughput", lambda load: load.client == RAW_CLIENT),
    ):
        chosen = {load: ratio for load, ratio in ratios.items() if wanted(load)}
        ordered = sorted(chosen, key=lambda load: chosen[load].value)
        for load, which in dict(zip(ordered[:1] + ordered[-1:], ("least", "most"), strict=False)).items():
            ratio = chosen[load]
            label = name if len(ordered) == 1 else f"{name}, {which if load != ordered[-1] else 'most'}"
            tiles.append(_tile(times(ratio.value), label, f"{describe(load)}; {interval(ratio)}"))
    return tiles


def _tail_tile(comparison: Comparison) -> list[Markup]:
    zero, one = comparison.sides
    for load in focus(comparison):
        before, after = (comparison.cells.get(Cell(mode, load)) for mode in (zero, one))
        if zero != one and before and after and before.p99_ms and after.p99_ms:
            change = f"{milliseconds(before.p99_ms)} \N{RIGHTWARDS ARROW} {milliseconds(after.p99_ms)}"
            return [_tile(change, f"p99 latency, {zero} \N{RIGHTWARDS ARROW} {one}", describe(load))]
    return []


def _order_tile(comparison: Comparison) -> Markup:
    audits = [comparison.audit_totals(audit) for audit in ("broker", "client")]
    violations = sum(audit.violations for audit in audits)
    audited = sum(audit.audited for audit in audits)
    more = f"{audited:,} rows audited" + ("" if all(audit.complete for audit in audits) else ", incomplete")
    return _tile(f"{violations:,}", "order violations", more, "bad" if violations else "good")


def _forest(comparison: Comparison) -> Markup:
    ratios = comparison.speedups
    if not ratios:
        return paragraph("There is no pair of rounds to compare.")
    zero, one = comparison.sides
    title = f"Throughput of {one} over {zero}, every load" if zero != one else f"{one}: side B over side A, every load"
    note = "Dot: geometric mean of paired rounds; line: 95% interval; dotted line: no difference. Logarithmic scale."
    whole = forest(title, [(full_name(load), ratio) for load, ratio in ratios.items()], note)
    return whole if len(ratios) <= LOADS_SHOWN_MAX else details(f"All {len(ratios)} loads, one by one", whole)


def missing(comparison: Comparison) -> Markup:
    """What the experiment lacks; nothing where it lacks nothing."""
    found = gaps(comparison)
    if not found:
        return NOTHING
    items = element("ul", *(element("li", text(sentence)) for sentence in found), class_="gaps")
    return section(
        "missing", "What is missing", paragraph("This page shows what is there. Not there, or doubtful:"), items
    )


def ordinary_clients(comparison: Comparison) -> Markup:
    """What an unmodified client gains."""
    loads = loads_of(comparison, ordinary)
    if not loads:
        return section(
            "ordinary", "Ordinary clients", paragraph("This experiment had no ordinary client (confluent-kafka).")
        )
    return section(
        "ordinary",
        "Ordinary clients",
        paragraph(
            "confluent-kafka (librdkafka), unmodified, idempotent producer at its defaults: at most five requests in "
            "flight for each producer. One row of its trace is one message, from produce() to its delivery report."
        ),
        load_table(comparison, loads, "Messages a second and latency of an ordinary client"),
    )


def others(comparison: Comparison) -> Markup:
    """Brokers that are not ours, under the same loads in the same rounds."""
    parts = []
    _, one = comparison.sides
    for mode, ratios in comparison.over_others.items():
        rows = []
        for load, ratio in ratios.items():
            theirs, ours = (comparison.cells[Cell(name, load)] for name in (mode, one))
            rates = [persecond(cell.requests_per_s) for cell in (theirs, ours)]
            latencies = [f"{milliseconds(theirs.p50_ms)} {ARROW} {milliseconds(ours.p50_ms)}"]
            latencies.append(f"{milliseconds(theirs.p99_ms)} {ARROW} {milliseconds(ours.p99_ms)}")
            rows.append([full_name(load), *rates, *ratio_cells(ratio), *latencies, judgement(ratio)])
        head = ["Load", f"{mode}, rate", f"{one}, rate", f"{one} over it", "95% interval", "p50", "p99", "Finding"]
        parts.append(table(f"{one} beside {OTHER_NAMES.get(mode, mode)}", head, rows))
    if not parts:
        return NOTHING
    note = (
        "The same client, machine, disk and rounds; only the broker differs. Compare what promises the same: with "
        "flush=always our brokers acknowledge what is on the disk, as Apache Kafka does only when it flushes every "
        "message; with its defaults it acknowledges what is in the page cache, and leaves the rest to replication. A "
        "Java broker compiles what it does often: it was driven for eight seconds before anything was measured."
    )
    return section("others", "Other brokers", paragraph(note), *parts)


def where_not(comparison: Comparison) -> Markup:
    """Where the second mode does not pay."""
    zero, one = comparison.sides
    title = f"Where {one} does not pay" if zero != one else "Where the sides differ"
    found = unpaying(comparison)
    if zero == one:
        judged = [(load, ratio, judgement(ratio)) for load, ratio in comparison.speedups.items()]
        differing = [entry for entry in judged if entry[2] != "no measurable difference"]
        said = "Both sides are the same mode: an interval that does not hold 1 is noise that the method did not catch."
        return section("unpaying", title, paragraph(said), _judged(differing))
    said = (
        "Loads whose interval does not lie above 1, whose gain is below a tenth or whose p99 grows by over a tenth."
        if found
        else "Under every load of this experiment the interval lies above 1 and p99 does not grow."
    )
    return section("unpaying", title, paragraph(said), _judged(found))


def _judged(entries: Iterable[tuple[Load, Ratio | None, str]]) -> Markup:
    rows = [[full_name(load), why, *ratio_cells(ratio)] for load, ratio, why in entries]
    if not rows:
        return NOTHING
    return table("Loads without a clear gain", ["Load", "Finding", "Speed-up", "95% interval"], rows, texts=2)
