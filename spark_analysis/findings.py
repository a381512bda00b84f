"""What the figures mean, in words: the verdict, and where the second mode does not pay.

Rules: ordinary clients come first, because that is what people run; the native client shows the bound. Each ratio is
said with its interval. An interval that holds 1 is "no measurable difference", whatever its middle is. No figure is
said here that is not also in a table of the report.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from spark_analysis.tables import RAW_CLIENT, REPLAY_CLIENT

if TYPE_CHECKING:
    from spark_analysis.cells import Load
    from spark_analysis.interval import Ratio
    from spark_analysis.summary import CellFigures, Comparison

SMALL_GAIN: Final = 1.1
_WORSE_TAIL: Final = 1.1
OTHER_NAMES: Final = {
    "kafka-synced": "Apache Kafka that flushes every message",
    "kafka": "Apache Kafka with its defaults (page cache)",
    "other": "the other broker",
}
"""What is said for the modes of brokers that are not ours."""


def times(value: float) -> str:
    """A ratio as people say it: 0.97x, 3.9x, 21x."""
    if value < 1.995:  # below what rounds to 2.0
        return f"{value:.2f}x"
    return f"{value:.1f}x" if value < 19.95 else f"{value:.0f}x"


def interval(ratio: Ratio) -> str:
    """The 95% interval in words."""
    if ratio.low is None or ratio.high is None:
        return "one round, no interval"
    return f"95% interval {times(ratio.low)} to {times(ratio.high)}"


def milliseconds(value: float | None) -> str:
    """A latency with three digits; a dash where there is none."""
    if value is None:
        return "\N{EN DASH}"
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f} ms"


def client_settings(client: str) -> str:
    """What a client's name says of its settings: `confluent-kafka linger=5` has a linger of 5 ms."""
    return re.sub(r"linger=(\S+)", r"linger \1 ms", client.partition(" ")[2] or client)


def describe(load: Load) -> str:
    """A load in words."""
    delay = f", commit delay {load.commit_delay_ms:g} ms" if load.commit_delay_ms else ""
    delay += f", {load.variant}" if load.variant else ""
    many = "s" if load.connections != 1 else ""
    if load.client == REPLAY_CLIENT:
        return f"replay over {load.connections} connection{many}{delay}"
    if load.client != RAW_CLIENT:
        return f"{load.connections} producer{many}, {client_settings(load.client)}{delay}"
    return f"{load.connections} connection{many} x {load.in_flight} in flight{delay}"


def full_name(load: Load) -> str:
    """A load in words, its client first."""
    return f"{load.client.partition(' ')[0]}: {describe(load)}"


def ordinary(load: Load) -> bool:
    """Whether the client is one that people use, not one of ours."""
    return load.client not in (RAW_CLIENT, REPLAY_CLIENT)


def verdict(comparison: Comparison) -> str:
    """The result in a few sentences, ordinary clients first."""
    return " ".join(verdict_sentences(comparison))


def verdict_sentences(comparison: Comparison) -> list[str]:
    """The verdict, one matter a sentence: ordinary clients, native client, replay, order."""
    zero, one = comparison.sides
    name = f"{one} (side B)" if zero == one else one
    base = f"{zero} (side A)" if zero == one else zero
    ratios = comparison.speedups
    if zero == one and ratios:
        return [_noise_sentence(zero, ratios), *_other_sentences(comparison), _order_sentence(comparison)]
    usual = {load: ratio for load, ratio in ratios.items() if ordinary(load)}
    native = {load: ratio for load, ratio in ratios.items() if load.client == RAW_CLIENT}
    found = []
    if usual:
        clients = ", ".join(dict.fromkeys(load.client.partition(" ")[0] for load in usual))
        said = _range(usual, f"the messages of {base}")
        found.append(f"Ordinary client ({clients}): {name} {_faster(usual)}; it delivers {said}.")
    else:
        found.append("Ordinary clients were not measured.")
    if native:
        said = _range(native, f"the requests of {base}")
        found.append(f"Native client: {name} {_faster(native)}; it answers {said}.")
    found += _factor_sentences(comparison)
    return [*found, *_other_sentences(comparison), *_replay_sentences(comparison), _order_sentence(comparison)]


def _noise_sentence(mode: str, ratios: dict[Load, Ratio]) -> str:
    """What a mode compared with itself says: how much of a difference is the method and the machine."""
    known = [ratio for ratio in ratios.values() if ratio.low is not None]
    if not known:
        return f"{mode} was compared with itself, in one round only: nothing can be said of the noise."
    holding = sum(not ratio.above and not ratio.below for ratio in known)
    farthest = max(ratios, key=lambda load: abs(math.log(ratios[load].value)))
    return (
        f"{mode} was compared with itself, so every true ratio is 1 and what differs is noise: {holding} of "
        f"{len(known)} intervals hold 1 (19 of 20 should); the ratio farthest from it is "
        f"{times(ratios[farthest].value)} with {_said(farthest, ratios[farthest])}."
    )


def _other_sentences(comparison: Comparison) -> list[str]:
    _, one = comparison.sides
    return [
        f"Beside {OTHER_NAMES.get(mode, mode)}: {one} {_faster(ratios)}; it reaches {_range(ratios, 'its rate')}."
        for mode, ratios in comparison.over_others.items()
        if ratios
    ]


def _factor_sentences(comparison: Comparison) -> list[str]:
    """What changes the speed-up most, where every combination of the factors' levels was run."""
    if not comparison.effects:
        return []
    factor = comparison.effects[0].factor
    levels = [effect for effect in comparison.effects if effect.factor == factor]
    said = ", ".join(f"{times(effect.speedup.value)} at {effect.level}" for effect in levels)
    return [f"Of the factors, {factor} changes the speed-up most: {said} ({levels[0].loads} loads each)."]


def _faster(ratios: dict[Load, Ratio]) -> str:
    """Under how many loads the whole interval lies above 1, and below it."""
    faster = sum(ratio.above for ratio in ratios.values())
    slower = sum(ratio.below for ratio in ratios.values())
    loads = f"{len(ratios)} load{'s' if len(ratios) != 1 else ''}"
    said = f"is faster under {faster} of {loads}" if faster else f"is not measurably faster under any of {loads}"
    return f"{said} and slower under {slower}" if slower else said


def _range(ratios: dict[Load, Ratio], what: str) -> str:
    ordered = sorted(ratios, key=lambda load: ratios[load].value)
    least, most = ordered[0], ordered[-1]
    said = f"{times(ratios[least].value)} {what} with {_said(least, ratios[least])}"
    return said if least == most else f"{said}, {times(ratios[most].value)} with {_said(most, ratios[most])}"


def _said(load: Load, ratio: Ratio) -> str:
    unclear = "" if ratio.above or ratio.below or ratio.low is None else ", no measurable difference"
    return f"{describe(load)} ({interval(ratio)}{unclear})"


def _replay_sentences(comparison: Comparison) -> list[str]:
    zero, one = comparison.sides
    found: list[str] = []
    loads = dict.fromkeys(key.load for key in comparison.cells if key.load.open_loop)
    for load in loads:
        cells = {key.mode: cell for key, cell in comparison.cells.items() if key.load == load}
        if zero != one and zero in cells and one in cells:
            found.append(
                f"Replayed events (open loop) wait {milliseconds(cells[one].p50_ms)} at the median and "
                f"{milliseconds(cells[one].p99_ms)} at p99 in {one}, {milliseconds(cells[zero].p50_ms)} and "
                f"{milliseconds(cells[zero].p99_ms)} in {zero}."
            )
    return found


def _order_sentence(comparison: Comparison) -> str:
    broker, client = (comparison.audit_totals(audit) for audit in ("broker", "client"))
    violations = broker.violations + client.violations
    if not broker.audited and not client.audited:
        return "Order was not audited: the traces hold nothing to audit."
    complete = "" if broker.complete and client.complete else " (incomplete: trace rows were lost)"
    count = "no violation" if not violations else f"{violations:,} violation{'s' if violations != 1 else ''}"
    return (
        f"Order: {count} in {client.audited:,} answers seen by clients and {broker.audited:,} requests stamped by the "
        f"broker{complete}."
    )


def judgement(ratio: Ratio) -> str:
    """What a ratio says, in a few words."""
    if ratio.low is None:
        return "one round only: no interval, no conclusion"
    if ratio.below:
        return "slower"
    if not ratio.above:
        return "no measurable difference"
    return "small gain" if ratio.value < SMALL_GAIN else "pays"


def unpaying(comparison: Comparison) -> list[tuple[Load, Ratio | None, str]]:
    """The loads under which the second mode does not pay, each with the reason.

    A load is listed when its interval does not lie clearly above 1, when the gain is below a tenth, or when the tail
    latency grows by more than a tenth although throughput does not.
    """
    zero, one = comparison.sides
    found: list[tuple[Load, Ratio | None, str]] = []
    by_load: dict[Load, dict[str, CellFigures]] = {}
    for key, cell in comparison.cells.items():
        by_load.setdefault(key.load, {})[key.mode] = cell
    for load, cells in by_load.items():
        ratio = comparison.speedups.get(load)
        reasons = []
        if ratio is not None and judgement(ratio) != "pays":
            reasons.append(judgement(ratio) + _because(load))
        before, after = (cells[mode].p99_ms if mode in cells else None for mode in (zero, one))
        if zero != one and before and after and after > before * _WORSE_TAIL:
            reasons.append(f"p99 rises from {milliseconds(before)} to {milliseconds(after)}")
        if reasons:
            found.append((load, ratio, "; ".join(reasons)))
    return found


def _because(load: Load) -> str:
    if load.in_flight == 1 and load.connections == 1:
        return ": with one request in flight there is nothing to overlap or to batch"
    if load.in_flight == 1:
        return ": each connection waits for its answer before it sends again"
    if ordinary(load) and load.connections == 1:
        return ": this client already packs what one producer sends into batches of its own"
    return ""
