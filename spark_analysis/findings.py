"""The verdict in sentences, and the loads under which the second mode is not proven faster.

Decisions come first (`decision`), with ordinary clients before the native one, because these are the clients that
people run. A reason is given only if a measurement shows it: batch sizes, stage times, the ablation. Every number here
is also in a table of the report.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from spark_analysis.cells import Cell, Load
from spark_analysis.decision import decisions
from spark_analysis.judgement import GAIN_MIN, Judgement, judge, rate_finding
from spark_analysis.tables import ABLATION_MODES
from spark_analysis.words import OTHER_NAMES, describe, duration, ends, measured, plural, times

if TYPE_CHECKING:
    from spark_analysis.breakdown import Cause
    from spark_analysis.interval import Ratio
    from spark_analysis.noise import Noise
    from spark_analysis.summary import Comparison

NO_NOISE: Final = (
    "No mode was compared with itself (A/A), so the difference between two equal brokers on this machine is unknown."
)

_NEARLY_ALL: Final = 0.95


def verdict(comparison: Comparison, *, is_poor: bool) -> str:
    """Return the verdict of `summary.json`, one line per subject: the decisions, factors, other brokers, noise, order.

    That of a poor run contains only the noise and the order.
    """
    about_run = [noise_sentence(comparison), _order_sentence(comparison)]
    if is_poor:
        return "\n".join(["Nothing is decided, because the run is poor.", *about_run])
    found = [" ".join([f"{each.subject}: {_inside(each.answer)}.", *each.lines]) for each in decisions(comparison)]
    found += _factor_sentences(comparison)
    return "\n".join([*found, *_other_sentences(comparison), *about_run])


def _inside(answer: str) -> str:
    return answer[0].lower() + answer[1:]


def noise_sentence(comparison: Comparison) -> str:
    """Return the result of the A/A comparison, the differences that come from the machine; NO_NOISE without one."""
    noise = comparison.noise
    if noise is None:
        return NO_NOISE
    if noise.rate.low is None:
        return f"{noise.mode} was compared with itself in too few rounds, so the noise is unknown."
    latency = f", p99 {measured(noise.p99)}" if noise.p99 is not None else ""
    line = f"{noise.mode} against itself on this machine: throughput {measured(noise.rate)}{latency}"
    zero, one = comparison.sides
    return f"{line}. {_noise_by_loads(noise)}." if zero == one else f"{line}."


def _noise_by_loads(noise: Noise) -> str:
    farthest = max(noise.loads, key=lambda load: abs(math.log(noise.loads[load].value)))
    called = plural(noise.called, "load") if noise.called else "No load"
    return (
        f"Both sides are the same mode, so every difference is noise. {noise.holding} of {len(noise.loads)} intervals "
        f"contain 1; 19 of 20 should. {called} would be called different. The ratio farthest from 1 "
        f"is {measured(noise.loads[farthest])} for {describe(farthest)}"
    )


def _other_sentences(comparison: Comparison) -> list[str]:
    _, one = comparison.sides
    found = []
    for mode, ratios in comparison.over_others.items():
        if not ratios:
            continue
        faster = {load: ratio for load, ratio in ratios.items() if ratio.above}
        slower = {load: ratio for load, ratio in ratios.items() if ratio.below}
        loads = plural(len(ratios), "load")
        parts = [f"{one} is faster under {len(faster)} of {loads}{_most(faster, above=True)}"] if faster else []
        parts += (
            [f"{'slower' if faster else f'{one} is slower'} under {len(slower)}{_most(slower, above=False)}"]
            if slower
            else []
        )
        text = " and ".join(parts) or f"no difference is beyond chance under any of {loads}"
        found.append(f"Beside {OTHER_NAMES.get(mode, mode)}: {text}.")
    return found


def _most(ratios: dict[Load, Ratio], *, above: bool) -> str:
    choose = max if above else min
    load = choose(ratios, key=lambda load: ratios[load].value)
    return f", most {measured(ratios[load])} for {describe(load)}"


def _factor_sentences(comparison: Comparison) -> list[str]:
    if not comparison.effects:
        return []
    factor = comparison.effects[0].factor
    levels = [effect for effect in comparison.effects if effect.factor == factor]
    text = ", ".join(f"{times(effect.speedup.value)} at {effect.level}" for effect in levels)
    return [f"Of the factors, {factor} changes the speed-up most: {text} ({levels[0].loads} loads each)."]


def _order_sentence(comparison: Comparison) -> str:
    broker, client = (comparison.audit_totals(audit) for audit in ("broker", "client"))
    violations = broker.violations + client.violations
    if not broker.audited and not client.audited:
        return "Order was not audited: the traces contain nothing to audit."
    complete = "" if broker.complete and client.complete else " Trace rows were lost, so the audit is incomplete."
    count = "no violation" if not violations else plural(violations, "violation")
    return (
        f"Order: {count} in {client.audited:,} answers seen by clients and {broker.audited:,} requests stamped by the "
        f"broker.{complete}"
    )


def unpaying(comparison: Comparison) -> list[tuple[Load, Ratio, str, str]]:
    """Return the loads under which the second mode is not proven faster, each with its ratio, finding and evidence.

    A load is listed if its throughput is not judged faster, or if its p99 is judged to grow. The evidence is empty if
    nothing was decided, or if no measurement shows the reason.
    """
    found: list[tuple[Load, Ratio, str, str]] = []
    for load, ratio in comparison.speedups.items():
        findings = []
        judged = judge(ratio)
        if judged is not Judgement.FASTER:
            findings.append(rate_finding(ratio))
        wait = comparison.latency_ratios["p99"].get(load)
        is_longer = wait is not None and judge(wait.inverse) is Judgement.SLOWER
        if wait is not None and is_longer:
            findings.append(f"p99 grows to {measured(wait)}")
        if findings:
            is_decided = is_longer or judged is not Judgement.UNDECIDED
            found.append((load, ratio, "; ".join(findings), evidence(comparison, load) if is_decided else ""))
    return found


def evidence(comparison: Comparison, load: Load) -> str:
    """Return the measurements that explain why the second mode gains little under a load; empty without any."""
    zero, one = comparison.sides
    parts = []
    sizes = [comparison.figures.commits.get(Cell(mode, load)) for mode in (zero, one)]
    if zero != one and sizes[0] is not None and sizes[1] is not None:
        before, after = (size.entries_mean for size in sizes if size is not None)
        if after < before * GAIN_MIN:
            parts.append(
                f"a commit contains {after:.1f} batches on average in {one} and {before:.1f} in {zero}, so group "
                "commit does not help"
            )
    found = comparison.cause(load)
    if found is not None and found.total.value > 0:
        parts.append(cause_sentence(comparison, found))
    for mode in (mode for mode in ABLATION_MODES if mode in ("mute-off", "group-commit")):
        ratio = comparison.ablation.get(Cell(mode, load))
        if ratio is not None and judge(ratio) is Judgement.NO_GAIN:
            parts.append(f"{mode} alone gains nothing ({ends(ratio)})")
    return "; ".join(parts)


def cause_sentence(comparison: Comparison, found: Cause) -> str:
    """Return the part of a request's time with most of the difference between the sides, in words."""
    zero, one = comparison.sides
    low, high = found.difference.low, found.difference.high
    assert low is not None
    assert high is not None
    longer = found.total.value > 0
    than = "longer" if longer else "less"
    least, most = (duration(end) for end in sorted((abs(low), abs(high))))
    share = "all" if found.share > _NEARLY_ALL else f"{found.share:.0%}"
    return (
        f"a request takes {duration(abs(found.total.value))} {than} in {one}, and {share} of the difference is in the "
        f"{found.part}: {duration(found.before.value)} in {zero}, {duration(found.after.value)} in {one} "
        f"({least} to {most} {than})"
    )
