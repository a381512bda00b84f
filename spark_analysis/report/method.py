"""The last sections: method and limits, reproduction, the machine, and the words of the page.

Rounds, seconds, sides and the command come from the traces, not from fixed text.
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
        "Throughput is the number of measured requests over the time from the first one sent to the last one answered. "
        "Both are summed over the untraced rounds. A speed-up, of rates or of latencies, is the geometric mean of the "
        "ratios of paired rounds. Its 95% interval comes from Student's t distribution, applied to the logarithms of "
        "these ratios."
    ),
    (
        "If the sides are equal, one interval in 20 excludes 1 by chance. So this page says “faster”, “slower”, "
        "“longer” and “shorter” only of loads that pass Holm's correction over their family. A family is one "
        "quantity (throughput, or one percentile) over all loads that this experiment compares. The chance of a "
        "false claim in a family is at most 5%. Intervals are shown without correction."
    ),
    (
        "In closed loops, the native client and confluent-kafka show capacity, and their latency is that of a "
        "saturated system. Latency at equal load and the replay come from open loops: requests are due at fixed "
        "times, from which latency counts. Percentiles are exact, in whole microseconds. A percentile is left out if "
        "fewer than ten samples lie beyond it. In a single round, two samples are enough."
    ),
    (
        "The results have limits: client and broker share the cores of one machine, and the network is loopback. "
        "Short rounds do not show effects that appear after minutes. Stages come from traced rounds, which may be "
        "slower (see What tracing costs)."
    ),
)
# Keys of `settings` that describe a run, not its mode.
_OF_RUNS = ("experiment", "seed", "process")


def method(comparison: Comparison) -> Markup:
    zero, one = comparison.sides
    runs = [run for run in comparison.figures.runs if run.compared]
    rounds = max((ratio.rounds for ratio in comparison.speedups.values()), default=0)
    seconds = median(run.seconds for run in runs) if runs else 0.0
    flush = ", ".join(sorted({run.flush for run in comparison.figures.runs}))
    sides = (
        f"Side A is {zero}, side B is {one}. The sides are separate broker processes that run the same code with "
        f"flush={flush}{'; only the mode differs' if zero != one else ''}. Rounds of the two sides are paired and "
        "interleaved, so that drift of the machine affects both. Each load has up to "
        f"{plural(rounds, 'untraced round')}. The median run measures {seconds:.2f} s after a "
        f"warm-up.{_order_of_runs(comparison)}"
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
    seeds = dict.fromkeys(
        str(seed) for run in comparison.figures.runs if (seed := run.settings.get("seed")) is not None
    )
    return f" The order of the runs is random, from the seed {', '.join(seeds)}." if seeds else ""


def _page_cache(comparison: Comparison) -> list[Markup]:
    """Return a warning for classic runs with flush=os, where a ratio over classic overstates the gain."""
    if not any(run.flush == "os" and run.cell.mode == "classic" for run in comparison.figures.runs):
        return []
    return [
        paragraph(
            "With flush=os, a commit is a write to the page cache, which Apache Kafka's handler does itself. Classic "
            "hands the write to a thread and back. This hand-over is necessary if a commit includes a sync, but it "
            "costs processor time. So with flush=os, a ratio over classic is more than pipelining gains over a broker "
            "like Kafka."
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
            "The client was at the limit of a core, so the broker may be faster than measured, under these loads: "
            + "; ".join(busy)
            + "."
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
    recorded = command(comparison)
    again = f"pipeline-broker report {shlex.quote(directory)}"
    instruction = (
        paragraph(
            "The first command repeats the experiment and replaces its results. The second makes this page again from "
            "the existing traces:"
        )
        if recorded
        else paragraph("The traces do not name the command of the experiment. Make this page again from the traces:")
    )
    return section(
        "reproduce",
        "Reproduce",
        instruction,
        code("\n".join(filter(None, (recorded, again)))),
        paragraph("Run the same analysis on the same files with any Spark:"),
        code(f"spark-submit spark_analysis/job.py {shlex.quote(directory)}"),
    )


def command(comparison: Comparison) -> str:
    """Return the recorded command of the experiment; empty if it was not recorded."""
    recorded = comparison.machine.get("command")
    return recorded if isinstance(recorded, str) else ""


def origin(comparison: Comparison) -> str:
    """Return the date of the runs and the version that made them; empty if the traces lack them."""
    facts = comparison.machine
    version = " ".join(str(facts[name]) for name in ("pipeline-broker", "commit") if facts.get(name))
    return ", ".join(filter(None, (str(facts.get("date") or ""), version and f"pipeline-broker {version}")))


def durability(comparison: Comparison) -> str:
    """Return the point at which the brokers acknowledge a record, as a sentence; empty if their flush is unknown."""
    words = {
        "always": "Our brokers answered when a record was on the disk (flush=always).",
        "os": (
            "Our brokers answered when a record was in the page cache (flush=os). Brokers that wait for the disk have "
            "different ratios."
        ),
    }
    flushes = {run.flush for run in comparison.figures.runs}
    if flushes >= set(words):
        return f"{words['always']} Loads with flush=os in their name were answered from the page cache."
    return " ".join(words[flush] for flush in flushes if flush in words)


def machine(comparison: Comparison) -> Markup:
    facts = [
        (str(name).replace("_", " "), _fact(value)) for name, value in comparison.machine.items() if name != "command"
    ]
    facts += [(f"settings of the mode {mode}", text) for mode, text in _settings(comparison).items()]
    body = definitions(facts) if facts else paragraph("The traces do not describe the machine.")
    return section("machine", "Machine", body)


WORDS: Final = {
    "mode": (
        "`classic` (Apache Kafka's request path) or `pipelined` (AutoMQ's): presets of the three axes queues, requests "
        "in flight, persistence"
    ),
    "side": "a broker that a cell compares: classic, pipelined, Apache Kafka",
    "load": "the work of the clients in a run: connections, requests in flight, sizes, pace",
    "round": "one run of every side of a cell, one after the other",
    "native client": "this project's own load client, `raw` in traces: its gain is the most that the broker can give",
    "closed loop": "a client sends the next request when an answer arrives; it measures capacity",
    "open loop": "a client sends at fixed times, whether or not answers arrive; it measures latency",
    "equal load": "an open loop in which both sides receive the same requests at the same times",
    "interval": "the range that contains the true value with 95 % confidence, from the differences between rounds",
    "beyond chance": (
        "a difference whose interval excludes 1, also after Holm's correction for all loads of the experiment"
    ),
    "kafka-synced": "Apache Kafka that flushes every message, as our brokers do with flush=always",
    "kafka": "Apache Kafka with its defaults: it answers when a record is in the page cache",
    "A/A": "a side compared with itself, which shows how much two equal brokers differ on this machine",
    "socket wait": "the part of a client's wait that the broker does not see: an unread request, or an unread answer",
    "commit": "a write and a sync of record batches, for one request or for all waiting requests",
}
"""The words of the page, copied from docs/reference/glossary.md."""


def words() -> Markup:
    pairs = [(name, meaning.replace("`", "")) for name, meaning in WORDS.items()]
    more = "More words are in docs/reference/glossary.md. docs/guides/comparing.md explains each figure and its limits."
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
        settings = {name: value for name, value in run.settings.items() if name not in _OF_RUNS}
        if settings:
            found.setdefault(run.cell.mode, _fact(settings))
    return found
