"""The sections for a decision: the decisions, missing data, ordinary clients, loads without a proven gain, noise.

The first screen has the decisions and, directly below them, the intervals that they rest on. A number whose interval
contains 1 is never in large type. The page of a poor run makes no claims, except about the order of responses,
which does not depend on the speed of the machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spark_analysis.cells import Cell, Load
from spark_analysis.decision import Decision
from spark_analysis.findings import NO_NOISE, noise_sentence, unpaying, verdict
from spark_analysis.gaps import gaps
from spark_analysis.judgement import FINDINGS_NOTE, rate_finding
from spark_analysis.report.common import (
    ARROW,
    INTERVAL_NOTE,
    forest,
    load_tables,
    loads_of,
    ratio_cell,
    ratio_cells,
    side_names,
)
from spark_analysis.report.markup import (
    NOTHING,
    Markup,
    block,
    details,
    paragraph,
    piece,
    section,
    sentences,
    table,
)
from spark_analysis.report.method import command
from spark_analysis.run_quality import WORDS, Light
from spark_analysis.words import OTHER_NAMES, full_name, milliseconds, ordinary, persecond

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_analysis.interval import Ratio
    from spark_analysis.run_quality import RunQuality
    from spark_analysis.summary import Comparison

LOADS_SHOWN_MAX: Final = 24
"""Limit of unfolded loads in the summary; a sweep can have hundreds."""


def summary(comparison: Comparison, quality: RunQuality) -> Markup:
    is_poor = quality.light is Light.POOR
    found = quality.decisions(comparison)
    boxes = [*map(_box, found), _order_box(comparison)]
    said = [paragraph(line) for line in verdict(comparison, is_poor=is_poor).splitlines()]
    return section(
        "summary",
        _question(comparison),
        _light(comparison, quality),
        *([] if is_poor or not found else [_form_of_claims(comparison)]),
        block(*boxes, class_="tiles"),
        _forest(comparison, is_poor=is_poor),
        details("The verdict in sentences, as in summary.json", *said),
    )


def _form_of_claims(comparison: Comparison) -> Markup:
    zero, one = comparison.sides
    return paragraph(
        f"A ratio is {one} over {zero} unless a line names others. Its 95% interval follows in parentheses; if nothing "
        "is proven, the interval stands alone. The large number of a box holds for each of its proven ratios.",
        class_="soft",
    )


def _question(comparison: Comparison) -> str:
    zero, one = comparison.sides
    return f"Is {one} faster than {zero}?" if zero != one else f"{one} against itself: how much is noise?"


def _light(comparison: Comparison, quality: RunQuality) -> Markup:
    recorded = command(comparison)
    more = "more --time" if "--rounds auto" in recorded else "more --rounds"
    advice = f"Repeat the experiment while nothing else runs on this machine. If intervals are too wide, use {more}."
    noise = noise_sentence(comparison)
    return piece(
        "light",
        kind=quality.light.name.lower(),
        head=WORDS[quality.light],
        why="; ".join(quality.reasons),
        advice=advice if quality.light is Light.POOR else "",
        command=recorded,
        noise="" if any(noise.rstrip(".") in reason for reason in quality.reasons) else noise,
    )


def _box(decision: Decision) -> Markup:
    return piece(
        "tile",
        tone=decision.tone,
        title=decision.subject,
        answer=decision.answer,
        headline=decision.headline,
        lines=list(map(_line, decision.lines)),
    )


def _line(line: str) -> list[tuple[str, bool]]:
    """Split a line of a box into pieces; those in parentheses, the less important part, are soft."""
    pieces = re.split(r"(\([^()]*\))", line)
    return [(it, it.startswith("(")) for it in pieces if it]


def _order_box(comparison: Comparison) -> Markup:
    audits = [comparison.audit_totals(audit) for audit in ("broker", "client")]
    violations = sum(audit.violations for audit in audits)
    audited = sum(audit.audited for audit in audits)
    is_complete = all(audit.complete for audit in audits)
    more = f"{violations:,} violations in {audited:,} audited rows, by two audits that share no data."
    more = more if audited else "The traces contain nothing to audit."
    lines = [more] if is_complete else [more, "Trace rows were lost, so the audit is incomplete."]
    return piece(
        "tile",
        tone="no" if violations else "yes" if audited and is_complete else "open",
        title="Order of responses",
        answer="Kept" if not violations and audited else "Broken" if violations else "Not audited",
        headline="",
        lines=list(map(_line, lines)),
    )


def _forest(comparison: Comparison, *, is_poor: bool) -> Markup:
    ratios = comparison.speedups
    if not ratios:
        return NOTHING if comparison.equal_loads else paragraph("No round has both sides.")
    zero, one = side_names(comparison)
    title = f"Throughput of {one} over {zero}, every load"
    note = "All ratios are grey, because a poor run proves nothing." if is_poor else INTERVAL_NOTE
    whole = forest(title, [(full_name(load), ratio) for load, ratio in ratios.items()], note)
    return whole if len(ratios) <= LOADS_SHOWN_MAX else details(f"All {len(ratios)} loads, one by one", whole)


def missing(comparison: Comparison) -> Markup:
    found = gaps(comparison)
    if not found:
        return NOTHING
    note = paragraph("The following data is missing or doubtful:")
    return section("missing", "What is missing", note, sentences(found))


def ordinary_clients(comparison: Comparison, quality: RunQuality) -> Markup:
    loads = loads_of(comparison, ordinary)
    if not loads:
        return section(
            "ordinary", "Ordinary clients", paragraph("This experiment had no ordinary client (confluent-kafka).")
        )
    return section(
        "ordinary",
        "Ordinary clients",
        paragraph(
            "The client is an unmodified confluent-kafka (librdkafka): an idempotent producer with its defaults, so "
            "each producer has at most five requests in flight. The latency is that of a message, from produce() to "
            "its delivery report."
        ),
        load_tables(comparison, loads, "Messages of an ordinary client", quality),
    )


def others(comparison: Comparison, quality: RunQuality) -> Markup:
    parts = []
    _, one = comparison.sides
    for mode, ratios in comparison.over_others.items():
        rows = []
        tails = comparison.latency_over_others[mode]["p99"]
        for load, ratio in ratios.items():
            theirs, ours = (comparison.cells[Cell(name, load)] for name in (mode, one))
            rates = [persecond(cell.requests_per_s) for cell in (theirs, ours)]
            latencies = [f"{milliseconds(theirs.p50_ms)} {ARROW} {milliseconds(ours.p50_ms)}"]
            latencies.append(f"{milliseconds(theirs.p99_ms)} {ARROW} {milliseconds(ours.p99_ms)}")
            latencies.append(ratio_cell(tails.get(load)))
            rows.append([full_name(load), *rates, *ratio_cells(ratio), *latencies, quality.claim(rate_finding(ratio))])
        head = ["Load", f"{mode}, rate", f"{one}, rate", f"{one} over it", "95% interval", "p50", "p99", "p99 ratio"]
        caption = f"{one} beside {OTHER_NAMES.get(mode, mode)}. {FINDINGS_NOTE}"
        parts.append(table(caption, [*head, "Finding"], rows))
    if not parts:
        return NOTHING
    note = (
        "Client, machine, disk and rounds are the same; only the broker differs. Compare brokers with the same "
        "guarantee. With flush=always, our brokers acknowledge a record when it is on the disk. Apache Kafka does so "
        "only if it flushes every message. With its defaults, Kafka acknowledges a record in the page cache and relies "
        "on replication. A Java broker compiles its hot code at run time, so it ran under load for eight seconds "
        "before the measurements."
    )
    return section("others", "Other brokers", paragraph(note), *parts)


def where_not(comparison: Comparison, quality: RunQuality) -> Markup:
    """Return the section with the loads that are not proven faster; for equal sides, with the loads that differ."""
    zero, one = comparison.sides
    if zero == one:
        judged = [(load, ratio) for load, ratio in comparison.speedups.items() if ratio.above or ratio.below]
        note = "Both sides are the same mode: a load that is called different is noise that the method did not detect."
        return section(
            "unpaying", "Where the sides differ", paragraph(note), _judged((*pair, "", "") for pair in judged)
        )
    if not comparison.speedups or quality.light is Light.POOR:
        return NOTHING
    found = unpaying(comparison)
    note = (
        f"The table lists loads under which {one} is not proven faster, gains less than a tenth, or makes p99 longer. "
        "A finding has evidence only if a measurement shows the reason: batch sizes, stage times, or the ablation."
        if found
        else f"Under every load of this experiment, {one} is proven faster, and p99 is not proven to grow."
    )
    return section("unpaying", f"Where {one} is not proven faster", paragraph(note), _judged(found))


def _judged(entries: Iterable[tuple[Load, Ratio, str, str]]) -> Markup:
    rows = [
        [full_name(load), found or rate_finding(ratio), why or "\N{EN DASH}", ratio_cells(ratio)[1]]
        for load, ratio, found, why in entries
    ]
    if not rows:
        return NOTHING
    return table(
        f"Loads without a proven gain. {FINDINGS_NOTE}",
        ["Load", "Finding", "Measured evidence", "95% interval"],
        rows,
        texts=3,
    )


def noise(comparison: Comparison, quality: RunQuality) -> Markup:
    found = comparison.noise
    parts: list[Markup] = []
    if found is None:
        parts.append(paragraph(f"{NO_NOISE} Run the experiment with its A/A part, or compare a mode with itself."))
    else:
        parts.append(
            forest(
                f"{found.mode} against itself: throughput of side B over side A",
                [
                    *([("all loads", found.rate)] if len(found.loads) > 1 else []),
                    *((_alone(load), ratio) for load, ratio in found.loads.items()),
                ],
                "Both sides are the same broker program: every true ratio is 1.",
            )
        )
    rows = [[measure.name, measure.light.name.lower(), measure.finding] for measure in quality.measures]
    parts.append(table("The measures of the light at the top", ["Measure", "Light", "Finding"], rows, texts=3))
    return section("noise", "Can this run be trusted?", paragraph(noise_sentence(comparison)), *parts)


def _alone(load: Load) -> str:
    """Return the name of an A/A load, without the factor that marks it as one."""
    return full_name(load._replace(variant=" ".join(part for part in load.variant.split() if part != "self")))
