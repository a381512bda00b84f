"""The sections that show the inside of the broker, from traced runs: stages, commits, order, and what tracing costs.

Rules: as in `overview`. Means are drawn where parts must add up to a whole, percentiles are given beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_analysis.cells import Cell, Load
from spark_analysis.findings import describe, full_name, milliseconds, times
from spark_analysis.inside_figures import VIOLATIONS_SHOWN_MAX
from spark_analysis.report import charts
from spark_analysis.report.common import PARTS, duration, focus, mode_kind, modes, ratio_cells
from spark_analysis.report.markup import (
    NOTHING,
    Markup,
    details,
    element,
    figure,
    paragraph,
    section,
    table,
    text,
)
from spark_analysis.tables import STAGES

if TYPE_CHECKING:
    from spark_analysis.figures import Commits, StageFigures
    from spark_analysis.summary import Comparison


def _traced(comparison: Comparison) -> list[Cell]:
    return [cell for cell in comparison.cells if cell in comparison.figures.stages]


def stages(comparison: Comparison) -> Markup:
    """The waterfall of a request inside the broker."""
    cells = _traced(comparison)
    if not cells:
        return section("stages", "Inside the broker", paragraph("No run of this experiment was traced."))
    wanted = focus(comparison) or [cells[0].load]
    drawings = [
        _waterfalls(comparison, load, [cell for cell in cells if cell.load == load and cell.mode in comparison.sides])
        for load in wanted
    ]
    return section(
        "stages",
        "Inside the broker: where the time of a request goes",
        paragraph(
            "Mean times of Produce requests in traced rounds, one after the other; both modes of a load have the same "
            "scale. The clock starts when the broker has received a request. A classic connection is not read while "
            "its request is answered, so what waits there waits in the socket: clients see it, these bars do not."
        ),
        *drawings,
        _stage_table(comparison, cells),
        _waits_table(comparison),
    )


def _waterfalls(comparison: Comparison, load: Load, cells: list[Cell]) -> Markup:
    parts = {cell: waterfall(comparison.figures.stages[cell]) for cell in cells}
    longest = max((sum(each.values()) for each in parts.values()), default=0) or 1
    blocks = []
    for cell in sorted(cells, key=lambda cell: comparison.sides.index(cell.mode)):
        begin = 0.0
        entries = []
        for name, mean_us in parts[cell].items():
            entries.append(charts.Bar(name, duration(mean_us), begin / longest, mean_us / longest, PARTS[name]))
            begin += mean_us
        heading = f"{cell.mode}: {duration(begin)} in all"
        blocks.append(
            element("div", element("h4", text(heading)), charts.bars(f"{cell.mode}, {describe(load)}", entries))
        )
    return figure(describe(load), element("div", *blocks, class_="two")) if blocks else NOTHING


def waterfall(figures: dict[str, StageFigures]) -> dict[str, float]:
    """Mean microseconds of the parts of a request's time, in order, so that they add up to the total.

    The commit wait lies inside the remote time; where a handler waits for its own commit it lies, as far as it is
    longer than the remote time, inside the local time.
    """
    mean = {name: (figures[name].mean_us or 0.0) if name in figures else 0.0 for name in STAGES}
    inside_local = min(mean["Local"], max(0.0, mean["CommitWait"] - mean["Remote"]))
    values = (
        mean["RequestQueue"],
        mean["Local"] - inside_local,
        mean["CommitWait"],
        max(0.0, mean["Remote"] - mean["CommitWait"]),
        mean["ResponseOrderWait"],
        max(0.0, mean["ResponseQueue"] - mean["ResponseOrderWait"]),
        mean["ResponseSend"],
    )
    return dict(zip(PARTS, values, strict=True))


def _stage_table(comparison: Comparison, cells: list[Cell]) -> Markup:
    rows = []
    for cell in cells:
        for name, found in comparison.figures.stages[cell].items():
            values = (found.mean_us, found.p50_us, found.p99_us)
            rows.append(
                [describe(cell.load), cell.mode, name, f"{found.requests:,}", *(duration(value) for value in values)]
            )
    head = ["Load", "Mode", "Stage", "Requests", "mean", "p50", "p99"]
    caption = "Kafka's stage times, with the two waits that Kafka does not measure (CommitWait, ResponseOrderWait)"
    return details("All stages as a table", table(caption, head, rows, texts=3))


def _waits_table(comparison: Comparison) -> Markup:
    rows = []
    for cell in comparison.cells:
        for wait in comparison.figures.waits.get(cell, ()):
            if wait.reason is None:
                what, total, tail = "request queue depth", "\N{EN DASH}", f"{wait.p99:,.0f} requests"
            else:
                what = f"not read: {wait.reason}"
                total, tail = milliseconds(wait.total / 1000), duration(wait.p99)
            rows.append([describe(cell.load), cell.mode, what, f"{wait.times:,}", total, tail])
    if not rows:
        return NOTHING
    head = ["Load", "Mode", "What", "Times or samples", "Total", "p99"]
    caption = "When connections were not read, and how deep the request queues were"
    return details("Mutes and queues as a table", table(caption, head, rows, texts=3))


def commits(comparison: Comparison) -> Markup:
    """Commit batch sizes and times."""
    found = {cell: comparison.figures.commits[cell] for cell in comparison.cells if cell in comparison.figures.commits}
    if not found:
        return NOTHING
    drawings = []
    for load in focus(comparison):
        blocks = []
        for mode in modes(comparison):
            commit = found.get(Cell(mode, load))
            if commit is not None:
                title = f"{mode}: {commit.entries_mean:,.1f} entries a commit"
                histogram = charts.bars(f"{mode}, {describe(load)}", _histogram(commit, mode_kind(comparison, mode)))
                blocks.append(element("div", element("h4", text(title)), histogram))
        if blocks:
            drawings.append(figure(describe(load), element("div", *blocks, class_="two")))
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
        ]
        for cell, commit in found.items()
    ]
    head = ["Load", "Mode", "Commits", "Mean", "p50", "p99", "Most", "Bytes each", "Commit p50", "p99", "Sync p50"]
    return section(
        "commits",
        "Commit batch sizes",
        paragraph(
            "How many record batches share one write and one sync. A mode that commits each request by itself has "
            "one; the more requests wait, the more a group commit takes along, and the less each of them pays."
        ),
        *drawings,
        details("All commits as a table", table("Entries of a commit, and its time", head, rows, texts=2)),
    )


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
    """Both ordering audits."""
    rows = []
    for cell, found in comparison.cells.items():
        numbers = {run.number for run in comparison.figures.runs if run.cell == cell}
        parts = [part for part in comparison.figures.audits if part.run in numbers]
        by_witness = {witness: [part for part in parts if part.audit == witness] for witness in ("broker", "client")}
        counts = [
            f"{sum(part.violations for part in chosen):,} in {sum(part.audited for part in chosen):,}"
            if chosen
            else "\N{EN DASH}"
            for chosen in by_witness.values()
        ]
        complete = "yes" if all(part.complete for part in parts) else "no, rows were lost"
        rows.append([full_name(cell.load), cell.mode, *counts, f"{found.order_violations:,}", complete])
    totals = [comparison.audit_totals(witness) for witness in ("broker", "client")]
    violations = sum(total.violations for total in totals)
    said = f"{violations:,} violations in {totals[1].audited:,} answers and {totals[0].audited:,} broker requests."
    if not all(total.complete for total in totals):
        said += " Trace rows were lost in at least one run: for those runs the audit is incomplete."
    head = ["Load", "Mode", "Broker", "Client", "Violations", "Complete"]
    return section(
        "audit",
        "Ordering audit",
        paragraph(said, class_="verdict"),
        paragraph(
            "Order is what pipelining must not cost. It is audited twice, over all rows of all runs, warm-up "
            "included. Broker: along the sequence of a connection responses are released in order, no sequence is "
            "missing or repeated, and the offsets that a connection gets in a partition rise. Client: the correlation "
            "ids of a connection come back in the order in which they were sent. The two share no data; the second "
            "needs no clock."
        ),
        _violations(comparison),
        details("All cells as a table", table("Violations found in rows looked at", head, rows, texts=2)),
    )


def _violations(comparison: Comparison) -> Markup:
    """Where order was broken: the first places."""
    found = comparison.figures.inside.violations
    if not found:
        return NOTHING
    rows = [
        [
            f"run {one.run}",
            one.audit,
            one.rule,
            "\N{EN DASH}" if one.topic is None else f"{one.topic}-{one.partition}",
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
    """What tracing costs."""
    costs = comparison.tracing_cost
    if not costs:
        return NOTHING
    rows = [[mode, *ratio_cells(ratio), f"{ratio.rounds}"] for mode, ratio in costs.items()]
    lost = sum(run.lost_rows for run in comparison.figures.runs)
    least = min(costs.values(), key=lambda ratio: ratio.value)
    said = (
        f"A traced run reaches {times(least.value)} the rate of an untraced one in the mode that suffers most. "
        f"Throughput and latency on this page come from untraced rounds. Rows lost to a full trace ring: {lost:,}."
    )
    head = ["Mode", "Traced over untraced rate", "95% interval", "Loads"]
    return section("tracing", "What tracing costs", paragraph(said), table("Rate of traced runs", head, rows))
