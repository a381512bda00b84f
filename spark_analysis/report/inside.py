"""The sections about the inside of the broker, from traced runs: stages, commits, order, the cost of tracing.

Means are drawn because they add up to a whole; percentiles are in the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_analysis.breakdown import SOCKET
from spark_analysis.cells import Cell, Load
from spark_analysis.findings import cause_sentence
from spark_analysis.inside_figures import VIOLATIONS_SHOWN_MAX
from spark_analysis.interval import mean_interval
from spark_analysis.report import charts
from spark_analysis.report.common import ALL_PARTS, STAGE_WORDS, focus, mode_kind, modes, ratio_cells
from spark_analysis.report.markup import (
    NOTHING,
    Markup,
    block,
    details,
    figure,
    heading,
    legend,
    paragraph,
    section,
    sentences,
    table,
    titled,
)
from spark_analysis.words import DASH, describe, duration, ends, full_name, milliseconds, times, with_interval

if TYPE_CHECKING:
    from spark_analysis.breakdown import Breakdown
    from spark_analysis.figures import Commits
    from spark_analysis.summary import Comparison


def stages(comparison: Comparison) -> Markup:
    found = comparison.breakdowns
    if not found:
        return section("stages", "Inside the broker", paragraph("No run of this experiment was traced."))
    wanted = focus(comparison) or [next(iter(found)).load]
    rounds = max(len(each.rounds) for each in found.values())
    intervals = (
        "There was one traced round, so these times have no interval: use them as proportions only."
        if rounds == 1
        else f"Intervals are over up to {rounds} traced rounds."
    )
    drawings = [
        _waterfalls(load, [found[Cell(mode, load)] for mode in modes(comparison) if Cell(mode, load) in found])
        for load in wanted
    ]
    return section(
        "stages",
        "Where the time of a request goes",
        paragraph(
            "The drawings show the mean times of the parts of a Produce request in traced rounds, one after the "
            "other. Both modes of a load have the same scale. For the native client, the parts add up to its "
            "latency. The hatched part is the wait that the broker does not see: an unread request or an unread "
            "answer waits in the socket. In classic mode, later requests of a connection wait in the socket until "
            f"the earlier one is answered. {intervals}"
        ),
        legend((kind, name) for name, kind in ALL_PARTS.items()),
        *drawings,
        *_causes(comparison),
        _parts_table(comparison),
        _stage_table(comparison),
        _waits_table(comparison),
    )


def _waterfalls(load: Load, found: list[Breakdown]) -> Markup:
    longest = max((each.total.value for each in found), default=0.0) or 1.0
    blocks = []
    for each in found:
        begin = 0.0
        entries = []
        for name, part in each.parts.items():
            value = with_interval(part)
            entries.append(charts.Bar(name, value, begin / longest, part.value / longest, ALL_PARTS[name]))
            begin += part.value
        title = f"{each.cell.mode}: {with_interval(each.total)} in all"
        if SOCKET not in each.parts:
            title += " inside the broker"
        label = f"{each.cell.mode}, {describe(load)}"
        blocks.append(titled(title, charts.bars(label, entries)))
    return figure(full_name(load), block(*blocks, class_="two")) if blocks else NOTHING


def _causes(comparison: Comparison) -> list[Markup]:
    loads = dict.fromkeys(cell.load for cell in comparison.breakdowns)
    found = [(load, cause) for load in loads if (cause := comparison.cause(load)) is not None]
    if not found:
        return []
    lines = [f"{full_name(load)}: {cause_sentence(comparison, cause)}." for load, cause in found]
    return [heading("Where the sides differ"), sentences(lines)]


def _parts_table(comparison: Comparison) -> Markup:
    rows = [
        [describe(cell.load), cell.mode, name, f"{part.rounds}", with_interval(part)]
        for cell, found in comparison.breakdowns.items()
        for name, part in [*found.parts.items(), ("in all", found.total)]
    ]
    head = ["Load", "Mode", "Part", "Traced rounds", "mean"]
    return details("All parts as a table", table("Parts of a request's time, with 95% intervals", head, rows, texts=3))


def _stage_table(comparison: Comparison) -> Markup:
    rows = []
    for cell in comparison.breakdowns:
        runs = [run.number for run in comparison.figures.runs if run.cell == cell]
        traced = [comparison.figures.stages[number] for number in runs if number in comparison.figures.stages]
        for name in traced[0]:
            same = [stages[name] for stages in traced if name in stages]
            values = [
                mean_interval([value for each in same if (value := getattr(each, figure_name)) is not None])
                for figure_name in ("mean_us", "p50_us", "p99_us")
            ]
            requests = sum(each.requests for each in same)
            word = STAGE_WORDS[name]
            rows.append([describe(cell.load), cell.mode, name, word, f"{requests:,}", *map(with_interval, values)])
    head = ["Load", "Mode", "Stage", "Parts above", "Requests", "mean", "p50", "p99"]
    caption = (
        "Stage times with Kafka's names, and three that Kafka does not measure (LaterSteps, CommitWait, "
        "ResponseOrderWait); each is the mean over the traced rounds, with its 95% interval"
    )
    return details("All stages as a table", table(caption, head, rows, texts=4))


def _waits_table(comparison: Comparison) -> Markup:
    rows = []
    for cell in comparison.cells:
        for wait in comparison.figures.waits.get(cell, ()):
            if wait.reason is None:
                kind, total, tail = "request queue depth", DASH, f"{wait.p99:,.0f} requests"
            else:
                kind = f"not read: {wait.reason}"
                total, tail = milliseconds(wait.total / 1000), duration(wait.p99)
            rows.append([describe(cell.load), cell.mode, kind, f"{wait.times:,}", total, tail])
    if not rows:
        return NOTHING
    head = ["Load", "Mode", "What", "Times or samples", "Total", "p99"]
    caption = "Spans in which connections were not read, and the depth of the request queues"
    return details("Mutes and queues as a table", table(caption, head, rows, texts=3))


def commits(comparison: Comparison) -> Markup:
    found = {cell: comparison.figures.commits[cell] for cell in comparison.cells if cell in comparison.figures.commits}
    if not found:
        return NOTHING
    drawings = []
    for load in focus(comparison):
        blocks = []
        for mode in modes(comparison):
            commit = found.get(Cell(mode, load))
            if commit is not None:
                title = f"{mode}: {commit.entries_mean:,.1f} entries per commit"
                histogram = charts.bars(f"{mode}, {describe(load)}", _histogram(commit, mode_kind(comparison, mode)))
                blocks.append(titled(title, histogram))
        if blocks:
            drawings.append(figure(describe(load), block(*blocks, class_="two")))
    return section(
        "commits",
        "Commit batch sizes",
        paragraph(
            "The drawings show how many record batches share a commit. In a mode that commits each request by "
            "itself, a commit has only the batches of one request. The more requests wait, the more of them a group "
            "commit includes, and the smaller is a request's share of the commit time. If a sync is faster than a "
            "hand-over to a thread, the commit runs on the event loop, which cannot parse or handle requests during "
            f"the commit.{_on_loop(comparison)}"
        ),
        *drawings,
        details("All commits as a table", _commit_table(found)),
    )


_COMMIT_HEAD = (
    *("Load", "Mode", "Commits", "Mean", "p50", "p99", "Most"),
    *("Bytes each", "Commit p50", "p99", "Sync p50", "On the loop"),
)


def _commit_table(found: dict[Cell, Commits]) -> Markup:
    rows = [
        [
            describe(cell.load),
            cell.mode,
            f"{commit.count:,}",
            f"{commit.entries_mean:,.1f}",
            *(f"{commit.entries_quantile(quantile):,}" for quantile in (0.5, 0.99, 1.0)),
            f"{commit.bytes / max(1, commit.count):,.0f}",
            duration(commit.commit_p50_us),
            duration(commit.commit_p99_us),
            duration(commit.sync_p50_us),
            DASH if commit.on_loop_share is None else f"{commit.on_loop_share:.0%}",
        ]
        for cell, commit in found.items()
    ]
    return table("Entries of a commit, and its time", list(_COMMIT_HEAD), rows, texts=2)


def _on_loop(comparison: Comparison) -> str:
    """Return the range of each mode's share of commits on the event loop; empty if the traces lack it."""
    parts = []
    for mode in modes(comparison):
        commits = [commit for cell, commit in comparison.figures.commits.items() if cell.mode == mode]
        shares = sorted(commit.on_loop_share for commit in commits if commit.on_loop_share is not None)
        if shares:
            span = " to ".join(dict.fromkeys(f"{share:.0%}" for share in (shares[0], shares[-1])))
            parts.append(f"{span} in {mode}")
    return f" The share of commits on the event loop under these loads is {', '.join(parts)}." if parts else ""


def _histogram(commit: Commits, kind: str) -> list[charts.Bar]:
    buckets: dict[int, int] = {}
    for size, count in commit.sizes.items():
        buckets[max(1, size).bit_length() - 1] = buckets.get(max(1, size).bit_length() - 1, 0) + count
    entries = []
    for bucket in range(min(buckets, default=0), max(buckets, default=0) + 1):
        share = buckets.get(bucket, 0) / max(1, commit.count)
        low, high = 1 << bucket, (2 << bucket) - 1
        label = "1 entry" if high == 1 else f"{low:,} to {high:,}"
        entries.append(charts.Bar(label, f"{share:.1%}", 0, share, kind))
    return entries


def audit(comparison: Comparison) -> Markup:
    rows = []
    for cell, found in [*comparison.cells.items(), *comparison.cells_of_noise.items()]:
        numbers = {run.number for run in comparison.figures.runs if run.cell == cell}
        parts = [part for part in comparison.figures.audits if part.run in numbers]
        by_witness = {witness: [part for part in parts if part.audit == witness] for witness in ("broker", "client")}
        counts = [
            f"{sum(part.violations for part in chosen):,} in {sum(part.audited for part in chosen):,}"
            if chosen
            else DASH
            for chosen in by_witness.values()
        ]
        is_audited = any(part.audited for part in parts)
        complete = "yes" if all(part.complete for part in parts) else "no, rows were lost"
        complete = complete if is_audited else "not audited: the client does not show the order"
        rows.append([full_name(cell.load), cell.mode, *counts, f"{found.order_violations:,}", complete])
    totals = [comparison.audit_totals(witness) for witness in ("broker", "client")]
    violations = sum(total.violations for total in totals)
    seen = f"{totals[1].audited:,} answers seen by clients and {totals[0].audited:,} requests stamped by the broker"
    result = f"The audits found {violations:,} violations in {seen}."
    if not all(total.complete for total in totals):
        result += " Trace rows were lost in at least one run: the audit of such runs is incomplete."
    head = ["Load", "Mode", "Broker", "Client", "Violations", "Complete"]
    return section(
        "audit",
        "Ordering audit",
        paragraph(result, class_="verdict"),
        paragraph(
            "Pipelining must not break the order of responses. This section audits the order twice, including the "
            "warm-up: from the broker's data in the traced runs, and from the native client's data in all its runs. "
            "The broker's data must show that the responses of a connection are released in sequence, that no sequence "
            "number is missing or repeated, and that the offsets of the connection in a partition increase. The "
            "client's data must show that the correlation ids of a connection return in the order in which they were "
            "sent. The two audits share no data, and the audit of the client's data needs no clock."
        ),
        _violations(comparison),
        details("All cells as a table", table("Violations in audited rows", head, rows, texts=2)),
    )


def _violations(comparison: Comparison) -> Markup:
    found = comparison.figures.inside.violations
    if not found:
        return NOTHING
    rows = [
        [
            f"run {one.run}",
            one.audit,
            one.rule,
            DASH if one.topic is None else f"{one.topic}-{one.partition}",
            f"{one.connection}",
            f"{one.sequence:,}",
            f"{one.before:,}",
            f"{one.found:,}",
            f"{one.violations:,}",
        ]
        for one in found
    ]
    head = ["Run", "Witness", "Rule", "Partition", "Connection", "Sequence", "Before", "Found", "Counts"]
    more = f" (the first {VIOLATIONS_SHOWN_MAX})" if len(found) >= VIOLATIONS_SHOWN_MAX else ""
    return table(f"Where order was broken{more}", head, rows, texts=4)


def tracing(comparison: Comparison) -> Markup:
    costs = comparison.tracing_cost
    if not costs:
        return NOTHING
    rows = [[mode, *ratio_cells(ratio), f"{ratio.rounds}"] for mode, ratio in costs.items()]
    lost = sum(run.lost_rows for run in comparison.figures.runs)
    slowed = {mode: ratio for mode, ratio in costs.items() if ratio.below}
    if slowed:
        mode = min(slowed, key=lambda name: slowed[name].value)
        result = (
            f"A traced run reaches {times(slowed[mode].value)} ({ends(slowed[mode])}) of the untraced rate in {mode}."
        )
    elif any(ratio.low is not None for ratio in costs.values()):
        result = "No measurable cost: no mode is slower in traced runs beyond chance."
    else:
        result = "Not decided: the loads are too few for an interval."
    result += f" Throughput and latency on this page come from untraced rounds. Rows lost to full rings: {lost:,}."
    head = ["Mode", "Traced over untraced rate", "95% interval", "Loads"]
    return section("tracing", "What tracing costs", paragraph(result), table("Rate of traced runs", head, rows))
