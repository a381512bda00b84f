"""The decision for each client whether the second mode pays. These decisions are the boxes at the top of the page.

A decision rests on the judgements of loads (`judgement`), never on the ratios alone. If loads differ, the decision
lists those for which the mode pays and those for which it does not. The decision also lists undecided loads. Only
ratios of decided loads appear in headlines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from spark_analysis.judgement import Judgement, judge, rate_finding
from spark_analysis.offered import EqualLoad, PacedSide
from spark_analysis.tables import PAIRS_CLIENT, RAW_CLIENT, READER_CLIENT
from spark_analysis.words import (
    OTHER_NAMES,
    SIZE_WIDTH_MAX,
    certain,
    client_name,
    describe,
    describe_alone,
    ends,
    interval,
    milliseconds,
    ordinary,
    pace,
    plural,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from spark_analysis.cells import Load
    from spark_analysis.interval import Ratio
    from spark_analysis.summary import Comparison

PAYS: Final = "Pays"
DEPENDS: Final = "Pays under some loads"
DOES_NOT_PAY: Final = "Does not pay"
UNDECIDED: Final = "Not decided on this machine"
QUOTED_SHARE_MIN: Final = 0.5
"""A smaller answered share is not quoted: the client stops before most of its waiting requests are answered."""
NOT_MEASURED: Final = "Not measured"
TONES: Final = {PAYS: "yes", DEPENDS: "partly", DOES_NOT_PAY: "no", UNDECIDED: "open", NOT_MEASURED: "open"}


@attrs.frozen
class Decision:
    """One box of the first page.

    Attributes:
        subject: the client, or another subject such as latency at equal load.
        answer: one of the keys of TONES.
        headline: the least and the greatest decided ratio; empty if none is decided.
        lines: sentences with the intervals, the most important first.
    """

    subject: str
    answer: str
    headline: str
    lines: tuple[str, ...]

    @property
    def tone(self) -> str:
        return TONES[self.answer]


def decisions(comparison: Comparison) -> list[Decision]:
    """Return the decisions in reading order: ordinary clients, native client, equal load, consumers, replay.

    The list is empty if both sides are the same mode.
    """
    zero, one = comparison.sides
    if zero == one:
        return []
    if not comparison.speedups and any(not each.load.offered_per_s for each in comparison.equal_loads):
        return [_of_replay(comparison, each) for each in comparison.equal_loads]  # nothing else was run
    clients = list(dict.fromkeys(load.client for load in comparison.speedups if load.client != READER_CLIENT))
    clients.sort(key=lambda client: client == RAW_CLIENT)
    found = [_of_client(comparison, client) for client in clients]
    if not any(ordinary(load) for load in comparison.speedups):
        found.insert(0, Decision("Ordinary clients", NOT_MEASURED, "", ("confluent-kafka did not run.",)))
    found.append(_of_equal_load(comparison))
    found += _of_consumers(comparison)
    found += [_of_replay(comparison, each) for each in comparison.equal_loads if not each.load.offered_per_s]
    return found


def paced(comparison: Comparison, *, is_consumed: bool = False) -> list[EqualLoad]:
    """Return the open loops with a given pace that time answers, or with `is_consumed` those that time consumers."""
    given = [each for each in comparison.equal_loads if each.load.offered_per_s]
    return [each for each in given if (each.load.client == PAIRS_CLIENT) is is_consumed]


def _of_client(comparison: Comparison, client: str) -> Decision:
    rates = {load: ratio for load, ratio in comparison.speedups.items() if load.client == client}
    # Judgements need ratios for which above 1 is better, so latencies are inverted and inverted back for display.
    waits = {load: ratio.inverse for load, ratio in comparison.latency_ratios["p99"].items() if load.client == client}
    answer, headline, lines = _weighed(rates, "messages" if client != RAW_CLIENT else "requests")
    worse = [load for load, ratio in waits.items() if judge(ratio) is Judgement.WORSE]
    shorter = {
        load: ratio.inverse for load, ratio in waits.items() if judge(ratio) in (Judgement.PAYS, Judgement.SMALL)
    }
    if shorter:
        lines.append(f"p99 latency at full speed, over that of {comparison.sides[0]}: {_span(shorter)}.")
    elif not worse:
        lines.append("p99 latency at full speed: not decided under any load.")
    if worse:
        longer = {load: waits[load].inverse for load in worse}
        lines.append(f"p99 latency at full speed is longer with {_listed(longer)}.")
    return Decision(client_name(client), answer, headline, (*lines, *_beside(comparison, rates)))


def _beside(comparison: Comparison, loads: Collection[Load], over: str = "Over") -> list[str]:
    found = []
    for mode in comparison.others:
        parts = []
        sides = zip(reversed(comparison.sides), (comparison.over_others, comparison.base_over_others), strict=True)
        for name, ratios in sides:
            own = {load: ratio for load, ratio in ratios[mode].items() if load in loads}
            if own:
                parts.append(f"{name} {_least_and_most(own)}")
        if parts:
            found.append(f"{over} {OTHER_NAMES.get(mode, mode)}: {'; '.join(parts)}.")
    return found


def _least_and_most(ratios: Mapping[Load, Ratio]) -> str:
    least, most = (choose(ratios, key=lambda load: ratios[load].value) for choose in (min, max))
    texts = [
        f"{times(ratios[load].value)} with {describe_alone(load)} ({ends(ratios[load])})" for load in (least, most)
    ]
    return " to ".join(dict.fromkeys(texts))


def _weighed(ratios: Mapping[Load, Ratio], unit: str) -> tuple[str, str, list[str]]:
    judged = {load: judge(ratio) for load, ratio in ratios.items()}
    paying = {load: ratios[load] for load, found in judged.items() if found is Judgement.PAYS}
    small = {load: ratios[load] for load, found in judged.items() if found is Judgement.SMALL}
    none = {load: ratios[load] for load, found in judged.items() if found is Judgement.NO_GAIN}
    worse = {load: ratios[load] for load, found in judged.items() if found is Judgement.WORSE}
    undecided = {load: ratios[load] for load, found in judged.items() if found is Judgement.UNDECIDED}
    lines = []
    if paying:
        lines.append(f"More {unit} under {len(paying)} of {plural(len(ratios), 'load')}: {_span(paying)}.")
    if small:
        lines.append(f"A gain below a tenth with {_listed(small)}.")
    if none:
        lines.append(f"No gain with {_listed(none)}.")
    if worse:
        lines.append(f"Slower with {_listed(worse)}.")
    if undecided:
        lines.append(f"Not decided with {_listed(undecided)}.")
    return _answer(judged.values()), _headline(paying), lines


def _answer(judged: Collection[Judgement]) -> str:
    # A small gain is proven but not worth a decision, so it never makes a client "pay".
    if judged and all(it is Judgement.PAYS for it in judged):
        return PAYS
    if Judgement.PAYS in judged:
        return DEPENDS
    return UNDECIDED if Judgement.UNDECIDED in judged or not judged else DOES_NOT_PAY


def _headline(decided: Mapping[Load, Ratio]) -> str:
    """Return the least and the greatest of ratios on one side of 1, or a bound that holds for all of them.

    Returns an empty text without ratios.
    """
    ratios = sorted(decided.values(), key=lambda ratio: ratio.value)
    # With a wide interval the greatest ratio is uncertain: quote only the bound that holds for all.
    if len(ratios) > 1 and any((ratio.width or 1.0) > SIZE_WIDTH_MAX for ratio in ratios):
        is_above = ratios[0].value > 1
        ends_of_all = [(ratio.low if is_above else ratio.high) or ratio.value for ratio in ratios]
        return f"at least {times(min(ends_of_all))}" if is_above else f"at most {times(max(ends_of_all))}"
    return " to ".join(dict.fromkeys(certain(ratio) for ratio in (ratios[:1] + ratios[-1:])))


def _span(ratios: Mapping[Load, Ratio]) -> str:
    ordered = sorted(ratios, key=lambda load: ratios[load].value)
    least, most = ordered[0], ordered[-1]
    text = f"{certain(ratios[least])} with {describe_alone(least)} ({interval(ratios[least])})"
    return (
        text if least == most else f"{text}, {certain(ratios[most])} with {describe_alone(most)} ({ends(ratios[most])})"
    )


_LISTED_MAX: Final = 3


def _listed(ratios: Mapping[Load, Ratio]) -> str:
    named = [f"{describe_alone(load)} ({ends(ratio)})" for load, ratio in ratios.items()]
    more = f" and {len(named) - _LISTED_MAX} more" if len(named) > _LISTED_MAX else ""
    return "; ".join(named[:_LISTED_MAX]) + more


def _of_equal_load(comparison: Comparison) -> Decision:
    subject, loads = "Latency at equal load", paced(comparison)
    if not loads:
        return Decision(
            subject,
            NOT_MEASURED,
            "",
            ("No open loop at a given rate was run, so latency at equal load is unknown.",),
        )
    waits = {each.load: each.ratios["p99"].inverse for each in loads if "p99" in each.ratios}
    answer, _, _ = _weighed(waits, "") if waits else (UNDECIDED, "", [])
    judged = {load: judge(ratio) for load, ratio in waits.items()}
    better = {load: waits[load] for load, found in judged.items() if found in (Judgement.PAYS, Judgement.SMALL)}
    lines = []
    for found, words in (
        (Judgement.PAYS, "Shorter p99 at"),
        (Judgement.SMALL, "p99 shorter by less than a tenth at"),
        (Judgement.NO_GAIN, "No shorter p99 at"),
        (Judgement.WORSE, "Longer p99 at"),
        (Judgement.UNDECIDED, "Not decided at"),
    ):
        chosen = [load for load, each in judged.items() if each is found]
        if chosen:
            texts = [_paced(load, waits[load].inverse, is_decided=found is not Judgement.UNDECIDED) for load in chosen]
            lines.append(f"{words} {'; '.join(texts)}.")
    lines += [*lateness(loads), *unkept(loads, comparison.sides)]
    headline = _headline({load: ratio.inverse for load, ratio in better.items()})
    return Decision(subject, answer, headline and f"p99 {headline}", tuple(lines))


def _paced(load: Load, ratio: Ratio, *, is_decided: bool) -> str:
    if is_decided:
        return f"{pace(load)}: {certain(ratio)} ({ends(ratio)})"
    why = ", beyond chance alone but not after the correction for all loads" if ratio.excludes_one else ""
    return f"{pace(load)} ({ends(ratio)}{why})"


def unkept(found: Sequence[EqualLoad], modes: Sequence[str]) -> list[str]:
    """Return one sentence about each side of `modes` that did not keep the pace of some loads."""
    sentences = []
    for mode in dict.fromkeys(modes):
        slow = [(each, side) for each in found for side in each.sides if side.mode == mode and not side.kept_pace]
        if not slow:
            continue
        if len(slow) == len(found) and len(found) > 1:
            where = f"the pace of any of the {len(found)} loads"
        else:
            where = "; ".join(_pace_and_reason(each.load, side) for each, side in slow)
        sentences.append(f"{mode} did not keep {where}, so its latency is not quoted.")
    return sentences


def _pace_and_reason(load: Load, side: PacedSide) -> str:
    kept = f"the pace of {pace(load)}" if load.offered_per_s else pace(load)
    return f"{kept} ({why_unkept(side)})"


def why_unkept(side: PacedSide) -> str:
    if side.late_ms is None:
        return "nothing was sent"
    if side.answered_share < QUOTED_SHARE_MIN:
        return f"answers arrived at less than {QUOTED_SHARE_MIN:.0%} of the pace"
    return f"answers arrived at {side.answered_share:.1%} of the pace"


def lateness(found: Sequence[EqualLoad]) -> list[str]:
    """Return a sentence about the loads with a late client; empty if no client was late."""
    late = [each for each in found if each.is_late and each.ratios]
    if not late:
        return []
    most = max(side.late_ms or 0.0 for each in late for side in each.sides if side.side in (0, 1))
    of_all = f"{len(late)} of {plural(len(found), 'load')}"
    text = f"The client itself sent late under {of_all}, the median request by up to {milliseconds(most)}."
    return [f"{text} Under such loads, a claim must hold both from the due time and from the time of sending."]


def _of_consumers(comparison: Comparison) -> list[Decision]:
    reading = {load: ratio for load, ratio in comparison.speedups.items() if load.client == READER_CLIENT}
    timed = paced(comparison, is_consumed=True)
    if not reading and not timed:
        return []
    lines = [f"Reading with {describe(load)}: {_rate_text(ratio)}." for load, ratio in reading.items()]
    judged = [judge(ratio) for ratio in reading.values()]
    longer = {
        load: ratio
        for load in reading
        if (ratio := comparison.latency_ratios["p99"].get(load)) and judge(ratio.inverse) is Judgement.WORSE
    }
    if longer:
        lines.append(f"p99 of a fetch is longer with {_listed(longer)}.")
    for each in timed:
        waits = {name: each.ratios[name] for name in ("p50", "p99") if name in each.ratios}
        judged += [judge(ratio.inverse) for ratio in waits.values()]
        text = ", ".join(f"{name} {_latency_text(ratio)}" for name, ratio in waits.items())
        lines.append(f"From publishing to consuming with {describe(each.load)}: {text or 'not decided'}.")
        known = [(side.mode, side.latency_ms["p50"]) for side in each.sides if side.kept_pace and side.latency_ms]
        if known:
            lines.append(f"p50: {', '.join(f'{mode} {milliseconds(p50.value)}' for mode, p50 in known)}.")
    lines += [*_beside(comparison, reading, "Reading over"), *lateness(timed), *unkept(timed, comparison.sides)]
    return [Decision("Consumers", _answer(judged), "", tuple(lines))]


def _rate_text(ratio: Ratio) -> str:
    words = {Judgement.PAYS: f"{certain(ratio)} as fast", Judgement.SMALL: "faster by less than a tenth"}
    return f"{words.get(judge(ratio), rate_finding(ratio).partition(':')[0])} ({ends(ratio)})"


def _latency_text(ratio: Ratio) -> str:
    found = judge(ratio.inverse)
    words = {Judgement.PAYS: certain(ratio), Judgement.WORSE: certain(ratio), Judgement.NO_GAIN: "no shorter"}
    return f"{words.get(found, found.value)} ({ends(ratio)})"


def _of_replay(comparison: Comparison, each: EqualLoad) -> Decision:
    subject = "Replayed events"
    unfair = unkept([each], comparison.sides)
    ratio = each.ratios.get("p99")
    # Either a side did not keep the pace, or the events are too few for a p99.
    if ratio is None:
        lines = unfair or ["The events are too few for a p99."]
        return Decision(subject, UNDECIDED, "", tuple(lines))
    waits = {each.load: ratio.inverse}
    answer, _, _ = _weighed(waits, "")
    better = judge(ratio.inverse) in (Judgement.PAYS, Judgement.SMALL)
    sides = [side for side in each.sides if side.side in (0, 1)]  # both have a p99, because their ratio exists
    absolute = ", ".join(f"{side.mode} {milliseconds(side.latency_ms['p99'].value)}" for side in sides)
    text = f"p99 wait: {certain(ratio)} that of {comparison.sides[0]} ({interval(ratio)}): {absolute}."
    return Decision(subject, answer, f"p99 {certain(ratio)}" if better else "", (text, *lateness([each])))
