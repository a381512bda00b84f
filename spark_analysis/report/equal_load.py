"""The sections about open loops: latency at equal offered load, consumers, and the replay.

Only a side that kept the pace appears in the charts. The page names the others and their answered share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_analysis.cells import PERCENTILES
from spark_analysis.decision import lateness, paced, unkept, why_unkept
from spark_analysis.judgement import NO_GAIN_MEANS, UNDECIDED_MEANS, latency_finding
from spark_analysis.offered import ANSWERED_SHARE_MIN, LATE_MS_MAX
from spark_analysis.queries import BUCKET_MS
from spark_analysis.report import charts
from spark_analysis.report.common import load_tables, loads_of, mode_kind, mode_legend, modes, ratio_cell
from spark_analysis.report.curves import distribution
from spark_analysis.report.markup import (
    NOTHING,
    Markup,
    details,
    join,
    paragraph,
    section,
    table,
)
from spark_analysis.report.method import command
from spark_analysis.tables import PAIRS_CLIENT, READER_CLIENT
from spark_analysis.words import DASH, client_name, describe, milliseconds, pace, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_analysis.offered import EqualLoad, PacedSide
    from spark_analysis.run_quality import RunQuality
    from spark_analysis.summary import Comparison

_NAMES = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
_RULE = (
    f"A side kept the pace if its answers arrived at {ANSWERED_SHARE_MIN:.0%} or more of the pace at which requests "
    "became due. The latency of any other side only shows how long the run was, and is not quoted. If the client sent "
    f"the median request more than {LATE_MS_MAX:g} ms late, part of the latency is the client's own. The page then "
    "shows the latency from the due time and from the time of sending, and a claim must hold for both."
)


def equal_load(comparison: Comparison, quality: RunQuality) -> Markup:
    found = paced(comparison)
    if not found:
        return section(
            "equal",
            "Latency at equal load",
            paragraph(
                "This latency was not measured: the experiment had no open loop at a given rate. The latencies of the "
                "closed loop below are those of saturated brokers: each follows from its own rate, and a mode with a "
                "higher rate has a lower latency. They do not compare waits at the same pace."
            ),
        )
    shown = dict.fromkeys(side.mode for each in found for side in each.sides)
    groups = dict.fromkeys(_group(each) for each in found)
    panels = [
        panel for group in groups for panel in _panels(comparison, [each for each in found if _group(each) == group])
    ]
    return section(
        "equal",
        "Latency at equal load",
        paragraph(
            "These latencies can be compared: both sides receive the same requests at the same times, whether or not "
            "earlier ones are answered (an open loop). Latency counts from the time a request was due, so a stall "
            f"counts for all requests that became due during the stall. {_RULE}"
        ),
        *_unkept(comparison, found),
        *([mode_legend(comparison, shown), charts.panels(panels, pairs=True)] if panels else []),
        _ratio_table(comparison, found, quality),
        details("Each side as a table", _side_table(found)),
    )


def consumers(comparison: Comparison, quality: RunQuality) -> Markup:
    timed = paced(comparison, is_consumed=True)
    reading = loads_of(comparison, lambda load: load.client == READER_CLIENT)
    if not timed and not reading:
        return NOTHING
    parts = []
    if reading:
        parts += [
            paragraph(
                "Connections of the native client read a topic from start to end, repeatedly, with 64 KB per fetch. "
                "Each keeps one fetch in flight, like a consumer. The records were just written, so our brokers have "
                "them in memory, and Apache Kafka in the page cache."
            ),
            load_tables(comparison, reading, "Fetches", quality),
        ]
    if timed:
        parts += [
            paragraph(
                "Each pair is an unmodified confluent-kafka producer with linger 0, and a consumer. Messages are sent "
                "at fixed times. Latency counts from the time a message was due until its consumer has it."
            ),
            *_unkept(comparison, timed),
            _ratio_table(comparison, timed, quality),
            _side_table(timed),
        ]
    return section("consumers", "Consumers", *parts)


def _group(each: EqualLoad) -> tuple[str, int, int, float, str]:
    return each.load[:5]


def _unkept(comparison: Comparison, found: Sequence[EqualLoad]) -> list[Markup]:
    names = (*comparison.sides, *comparison.others)
    return [paragraph(sentence) for sentence in (*lateness(found), *unkept(found, names))]


def _panels(comparison: Comparison, group: Sequence[EqualLoad]) -> list[Markup]:
    rates = [each.load.offered_per_s for each in group]
    x_axis = charts.log_axis("offered, requests per second", rates, charts.short)
    title = _where(group[0])
    lines = {name: _lines(comparison, group, name) for name in ("p50", "p99")}
    values = [y for found in lines.values() for line in found for _, y in line.points]
    values += [end for found in lines.values() for line in found for ends in line.intervals for end in ends]
    if not values:
        return []
    y_axis = charts.log_axis("latency, ms", values, charts.short)
    return [
        charts.panel(f"{name}, {title}", f"{name} latency over the offered rate", x_axis, y_axis, found, markers=True)
        for name, found in lines.items()
    ]


def _where(each: EqualLoad) -> str:
    load = each.load
    noun = "pair" if load.client == PAIRS_CLIENT else "connection"
    return f"{client_name(load.client)}, {plural(load.connections, noun)}" + (
        f", commit delay {load.commit_delay_ms:g} ms" if load.commit_delay_ms else ""
    )


def _lines(comparison: Comparison, group: Sequence[EqualLoad], name: str) -> list[charts.Line]:
    found = []
    for mode in dict.fromkeys(side.mode for each in group for side in each.sides):
        points, intervals = [], []
        for each in group:
            for side in each.sides:
                estimate = side.latency_ms.get(name)
                if side.mode == mode and side.kept_pace and estimate is not None:
                    points.append((each.load.offered_per_s, estimate.value))
                    intervals.append((estimate.low or estimate.value, estimate.high or estimate.value))
        found.append(charts.Line(mode_kind(comparison, mode), mode, tuple(points), intervals=tuple(intervals)))
    return [line for line in found if line.points]


def _ratio_table(comparison: Comparison, found: Sequence[EqualLoad], quality: RunQuality) -> Markup:
    zero, one = comparison.sides
    rows = []
    for each in found:
        waits = [ratio_cell(each.ratios.get(name)) for name in PERCENTILES]
        ratio = each.ratios.get("p99")
        broken = [side for side in each.sides if side.mode in (zero, one) and not side.kept_pace]
        finding = (
            "neither kept the pace"
            if len(broken) > 1
            else f"{broken[0].mode} did not keep the pace"
            if broken
            else "too few samples"
            if ratio is None
            else quality.claim(latency_finding(ratio))
        )
        rows.append([_where(each), pace(each.load), finding, *waits])
    head = ["Load", "Offered", "p99 of " + one, *(f"{name} ratio" for name in _NAMES.values())]
    caption = (
        f"Latency of {one} over {zero} at the same offered load, with 95% intervals; a ratio below 1x is a shorter "
        f"wait. No shorter: {NO_GAIN_MEANS}. Not decided: {UNDECIDED_MEANS}"
    )
    return table(caption, head, rows, texts=3)


def _side_table(found: Sequence[EqualLoad]) -> Markup:
    rows = [
        [
            describe(each.load),
            side.mode,
            "yes" if side.kept_pace else f"no: {why_unkept(side)}",
            *_figures(side),
        ]
        for each in found
        for side in each.sides
    ]
    head = ["Load", "Mode", "Kept the pace", "Rounds", "Requests", "Answered", "Sent late, median"]
    names = [*_NAMES.values(), *(f"{name} from sending" for name in _NAMES.values())]
    return table("Latency from the due time, and from the time of sending, each side", [*head, *names], rows, texts=3)


def _figures(side: PacedSide) -> list[str]:
    percentiles = []
    for latency_ms in (side.latency_ms, side.sent_latency_ms):
        for name in PERCENTILES:
            estimate = latency_ms.get(name) if side.kept_pace else None
            if estimate is None:
                percentiles.append(DASH)
            else:
                ends = f" ({milliseconds(estimate.low)} to {milliseconds(estimate.high)})" if estimate.low else ""
                percentiles.append(f"{milliseconds(estimate.value)}{ends}")
    # The measured requests of a side that lost the pace are the last ones of its queue, and few of them are answered.
    answered = f"{side.answered_share:.1%}" if side.kept_pace else DASH
    return [f"{side.runs}", f"{side.requests:,}", answered, milliseconds(side.late_ms), *percentiles]


def replay(comparison: Comparison, quality: RunQuality) -> Markup:
    found = [each for each in comparison.equal_loads if not each.load.offered_per_s]
    if not found:
        return NOTHING
    return section(
        "replay",
        "Replay of real events",
        paragraph(
            f"{_events(comparison)}, whether or not earlier ones are answered. Each round replays a part of the "
            "events. Latency counts from the time an event was due. Both sides receive the events at the same times, "
            "so their latencies are comparable."
        ),
        *_unkept(comparison, found),
        _ratio_table(comparison, found, quality),
        details("Each side as a table", _side_table(found)),
        _replay_panels(comparison, [each for each in found if not unkept([each], comparison.sides)]),
    )


def _events(comparison: Comparison) -> str:
    is_trace = "--replay" in command(comparison)
    if is_trace:
        return "The requests of a trace are sent at their original times"
    return "Departures of real flights are sent as events, with a week compressed to five seconds"


def _replay_panels(comparison: Comparison, fair: Sequence[EqualLoad]) -> Markup:
    buckets = comparison.figures.buckets
    if not buckets:
        return NOTHING
    shown = {mode: min((b.run for b in buckets if b.mode == mode), default=None) for mode in modes(comparison)}

    def line(mode: str, value: Callable[..., float]) -> charts.Line:
        mine = [b for b in buckets if b.run == shown[mode]]
        along = tuple((bucket.bucket * BUCKET_MS / 1000, value(bucket)) for bucket in mine)
        return charts.Line(mode_kind(comparison, mode), mode, along)

    seconds = max(b.bucket for b in buckets) * BUCKET_MS / 1000
    x_axis = charts.linear_axis("seconds of the replay", max(seconds, 1.0), lambda value: f"{value:g}")
    waits = [line(mode, lambda bucket: max(bucket.p99_us, 1) / 1000) for mode in modes(comparison)]
    paces = [line(mode, lambda bucket: bucket.requests * 1000 / BUCKET_MS) for mode in modes(comparison)]
    wait_axis = charts.log_axis("p99, ms", [y for each in waits for _, y in each.points], lambda value: f"{value:g}")
    pace_axis = charts.linear_axis("events per second", max(y for each in paces for _, y in each.points), charts.short)
    drawings = [distribution(comparison, each.load, "Share of events answered") for each in fair]
    drawings.append(
        charts.panel(
            "Wait in the first round, p99 of each quarter second",
            "p99 latency over the replay",
            x_axis,
            wait_axis,
            waits,
            markers=False,
        )
    )
    drawings.append(charts.panel("Pace", "Events per second over the replay", x_axis, pace_axis, paces, markers=False))
    return join([mode_legend(comparison), charts.panels(drawings)])
