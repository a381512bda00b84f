"""The last sections: how it was measured, what limits it, how to do it again, on which machine.

Rules: nothing here is fixed text where the traces know it: rounds, seconds, sides and the command come from the runs.
"""

from __future__ import annotations

import shlex
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from spark_analysis.report.markup import Markup, code, definitions, paragraph, section
from spark_analysis.run_quality import CLIENT_SHARE_MAX
from spark_analysis.words import describe, plural

if TYPE_CHECKING:
    from spark_analysis.summary import Comparison

_METHOD = (
    (
        "Throughput is the number of measured requests over the time from the first one sent to the last one answered, "
        "summed over the untraced rounds. A speed-up, of rates or of latencies, is the geometric mean of the ratios of "
        "paired rounds; its 95% interval is Student's t on their logarithms."
    ),
    (
        "One interval in 20 lies beside 1 by chance. So “faster”, “slower”, “pays”, “longer” and “shorter” are "
        "said only of loads that survive Holm's correction over their family, which is one quantity (throughput, or "
        "one percentile) over all loads that this experiment compares: the chance of one false claim in a family is 5% "
        "at most. Intervals are shown as they are, without correction."
    ),
    (
        "The native client and confluent-kafka run in a closed loop: they show capacity, and their latency is that of "
        "a saturated system. Latency at equal load, and the replay, come from open loops: requests leave at times "
        "fixed beforehand, and wait from then on. Percentiles are exact, in whole microseconds; one is left out where "
        "fewer than ten samples lie beyond it, and in a single round where fewer than two do."
    ),
    (
        "Limits: client and broker share the cores of one machine, and the network is loopback. Short rounds do not "
        "show what happens after minutes. Stages come from traced rounds, which may be slower (see what tracing costs)."
    ),
)
_OF_RUNS = ("experiment", "seed", "process")
"""What `settings` say of a run, not of its mode."""


def method(comparison: Comparison) -> Markup:
    """Method and limits."""
    zero, one = comparison.sides
    runs = [run for run in comparison.figures.runs if run.compared]
    rounds = max((ratio.rounds for ratio in comparison.speedups.values()), default=0)
    seconds = median(run.seconds for run in runs) if runs else 0.0
    flush = ", ".join(sorted({run.flush for run in comparison.figures.runs}))
    sides = (
        f"Side A is {zero}, side B is {one}; both are separate broker processes that run the same code except for the "
        f"mode, with flush={flush}. Rounds of the two sides are paired and interleaved, so that drift of the machine "
        f"hits both; up to {plural(rounds, 'untraced round')} a load, each {seconds:.2f} s measured after a warm-up "
        f"(median).{_order_of_runs(comparison)}"
    )
    return section(
        "method",
        "Method and limits",
        *(paragraph(each) for each in (sides, *_METHOD)),
        *_page_cache(comparison),
        *_busy(comparison),
        *_errors(comparison),
    )


def _order_of_runs(comparison: Comparison) -> str:
    """Where the order of the runs was drawn: from which seed."""
    seeds = dict.fromkeys(
        str(seed) for run in comparison.figures.runs if (seed := run.settings.get("seed")) is not None
    )
    return f" Their order was drawn, from the seed {', '.join(seeds)}." if seeds else ""


def _page_cache(comparison: Comparison) -> list[Markup]:
    """What a ratio over classic overstates where a commit is no sync."""
    if not any(run.flush == "os" and run.cell.mode == "classic" for run in comparison.figures.runs):
        return []
    return [
        paragraph(
            "With flush=os a commit is a write into the page cache, which Apache Kafka's handler does itself. Classic "
            "hands it to a thread and back, as it must where a commit is a sync; that costs it processor time, so here "
            "a ratio over classic is more than pipelining gains over a broker like Kafka."
        )
    ]


def _busy(comparison: Comparison) -> list[Markup]:
    busy = [
        f"{describe(key.load)}, {key.mode} ({cell.client_cpu_share:.0%} of a core)"
        for key, cell in comparison.cells.items()
        if cell.client_cpu_share is not None and cell.client_cpu_share >= CLIENT_SHARE_MAX
    ]
    if not busy:
        return []
    return [
        paragraph(
            "The client was itself at the limit of a core, so the broker may do better, in: " + "; ".join(busy) + "."
        )
    ]


def _errors(comparison: Comparison) -> list[Markup]:
    failed = [
        f"{describe(key.load)}, {key.mode}: {cell.errors:,} of {cell.requests:,}"
        for key, cell in comparison.cells.items()
        if cell.errors
    ]
    return [paragraph("Requests answered with an error: " + "; ".join(failed) + ".")] if failed else []


def reproduce(comparison: Comparison, directory: str) -> Markup:
    """Return the commands that make this page again."""
    recorded = command(comparison)
    again = f"pipeline-broker report {shlex.quote(directory)}"
    said = (
        paragraph("The experiment once more, which replaces its results, and this page from the traces that are there:")
        if recorded
        else paragraph("The traces do not say which command began the experiment. This page from them:")
    )
    return section(
        "reproduce",
        "Reproduce",
        said,
        code("\n".join(filter(None, (recorded, again)))),
        paragraph("Any Spark runs the same analysis on the same files:"),
        code(f"spark-submit spark_analysis/job.py {shlex.quote(directory)}"),
    )


def command(comparison: Comparison) -> str:
    """Return the command of the experiment as it was recorded; empty where it was not."""
    recorded = comparison.machine.get("command")
    return recorded if isinstance(recorded, str) else ""


def origin(comparison: Comparison) -> str:
    """Return when the runs were made and by which version; empty where the traces do not say it."""
    told = comparison.machine
    version = " ".join(str(told[name]) for name in ("pipeline-broker", "commit") if told.get(name))
    return ", ".join(filter(None, (str(told.get("date") or ""), version and f"pipeline-broker {version}")))


def durability(comparison: Comparison) -> str:
    """Return when the brokers of a run answer, and what its ratios say of others."""
    words = {
        "always": "Our brokers answered when a record was on the disk (flush=always).",
        "os": (
            "Our brokers answered when a record was in the page cache (flush=os): the ratios of a broker that waits "
            "for the disk are others."
        ),
    }
    flushes = {run.flush for run in comparison.figures.runs}
    if flushes >= set(words):
        return f"{words['always']} Loads with flush=os in their name were answered from the page cache."
    return " ".join(words[flush] for flush in flushes if flush in words)


def machine(comparison: Comparison) -> Markup:
    """What the runs say of the machine, and the settings that a mode was given."""
    facts = [
        (str(name).replace("_", " "), _fact(value)) for name, value in comparison.machine.items() if name != "command"
    ]
    facts += [(f"settings of the mode {mode}", said) for mode, said in _settings(comparison).items()]
    body = definitions(facts) if facts else paragraph("The traces do not describe the machine.")
    return section("machine", "Machine", body)


WORDS: Final = {
    "mode": (
        "`classic` (Apache Kafka's request path) or `pipelined` (AutoMQ's): presets of the three axes queues, requests "
        "in flight, persistence"
    ),
    "side": "one of those that a cell compares: classic, pipelined, Apache Kafka",
    "load": "what clients do in a run: connections, requests in flight, sizes, pace",
    "round": "every side of a cell once, one after the other",
    "native client": "this project's own load client, `raw` in traces: what it gains is what the broker can do",
    "closed loop": "a client sends when an answer has come; it measures capacity",
    "open loop": "a client sends at a pace of its own; it measures latency",
    "equal load": "an open loop in which both sides are sent the same requests at the same moments",
    "interval": "where the true value lies with 95 % confidence, from the differences between rounds",
    "beyond chance": (
        "said of a difference whose interval does not hold 1, also after Holm's correction for all loads of the "
        "experiment"
    ),
    "kafka-synced": "Apache Kafka that flushes every message, as our brokers do with flush=always",
    "kafka": "Apache Kafka with its defaults: it answers from the page cache",
    "A/A": "a side against itself: how much two equal brokers differ on this machine",
    "socket wait": (
        "what a client waits beyond what the broker saw: a request that is not read yet, an answer that is not read yet"
    ),
    "commit": "what is written and synced in one go, for one request or for all that wait",
}
"""The words of the page; docs/glossary.md has them too, and more."""


def words() -> Markup:
    """The words of the page, for somebody who was mailed nothing else."""
    pairs = [(name, meaning.replace("`", "")) for name, meaning in WORDS.items()]
    more = "The rest is in docs/glossary.md; what each figure says, and what it does not, in docs/report-guide.md."
    return section("words", "Words", definitions(pairs), paragraph(more))


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_fact(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(_fact(part) for part in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _settings(comparison: Comparison) -> dict[str, str]:
    found: dict[str, str] = {}
    for run in comparison.figures.runs:
        told = {name: value for name, value in run.settings.items() if name not in _OF_RUNS}
        if told:
            found.setdefault(run.cell.mode, _fact(told))
    return found
