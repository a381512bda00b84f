"""The decision for each client: whether the second mode is faster, slower, or both. These are the boxes of the page.

A decision rests on the judgements of loads (`judgement`), never on the ratios alone. Its answer names every kind of
decided claim, and is "not decided" only if no load is decided. A claim has one form everywhere: a ratio with its
interval. The headline is a bound that all claims of one kind keep. A poor run makes no claims (`withheld`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from spark_analysis.judgement import NO_GAIN_MEANS, UNDECIDED_MEANS, Judgement, judge
from spark_analysis.offered import EqualLoad, PacedSide
from spark_analysis.tables import PAIRS_CLIENT, RAW_CLIENT, READER_CLIENT
from spark_analysis.words import (
    OTHER_NAMES,
    client_name,
    describe_alone,
    describe_paced,
    ends,
    measured,
    milliseconds,
    ordinary,
    plural,
    times,
    uncorrected,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from spark_analysis.cells import Load
    from spark_analysis.interval import Ratio
    from spark_analysis.summary import Comparison

FASTER: Final = "Faster"
BARELY: Final = "Faster by less than a tenth"
SLOWER: Final = "Slower"
NO_GAIN: Final = "No gain"
SOME: Final = " under some loads"
BOTH: Final = "Faster under some loads, slower under others"
UNDECIDED: Final = "Not decided"
POOR: Final = "Not decided: poor run"
NOT_MEASURED: Final = "Not measured"
TONES: Final = {
    FASTER: "yes",
    FASTER + SOME: "partly",
    BOTH: "partly",
    **dict.fromkeys((SLOWER, SLOWER + SOME, BARELY, BARELY + SOME, NO_GAIN), "no"),
    **dict.fromkeys((NO_GAIN + SOME, UNDECIDED, POOR, NOT_MEASURED), "open"),
}
QUOTED_SHARE_MIN: Final = 0.5
"""A smaller answered share is not quoted: the client stops before most of its waiting requests are answered."""
_LISTED_MAX: Final = 3

_UNDECIDED_WORDS: Final = f"Not decided ({UNDECIDED_MEANS})"
_WAIT_WORDS: Final = {
    Judgement.FASTER: "Shorter {}",
    Judgement.BARELY: "Shorter {} (by less than a tenth)",
    Judgement.NO_GAIN: f"No shorter {{}} ({NO_GAIN_MEANS})",
    Judgement.SLOWER: "Longer {}",
    Judgement.UNDECIDED: _UNDECIDED_WORDS,
}


@attrs.frozen
class Decision:
    """One box of the first page.

    Attributes:
        subject: the client, or another subject such as latency at equal load.
        answer: one of the keys of TONES.
        headline: bounds of the ratios that are decided; empty if none is faster or slower.
        lines: sentences with the intervals, the most important first.
    """

    subject: str
    answer: str
    headline: str
    lines: tuple[str, ...]

    @property
    def tone(self) -> str:
        return TONES[self.answer]


def withheld(decision: Decision) -> Decision:
    """Return the decision as a poor run shows it: without any claim."""
    return decision if decision.answer == NOT_MEASURED else Decision(decision.subject, POOR, "", ())


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
    waits = {load: ratio for load, ratio in comparison.latency_ratios["p99"].items() if load.client == client}
    lines = _of_rates(rates, "messages" if client != RAW_CLIENT else "requests")
    found = _of_waits({describe_alone(load): ratio for load, ratio in waits.items()}, "p99 at full speed")
    claims = [line for line in found if not line.startswith((_UNDECIDED_WORDS, "No shorter"))]
    lines += claims or ["No load has a p99 at full speed that is proven shorter or longer."]
    judged = {load: judge(ratio) for load, ratio in rates.items()}
    return Decision(
        client_name(client), _answer(judged.values()), _headline(rates.values()), (*lines, *_beside(comparison, rates))
    )


def _answer(judged: Collection[Judgement]) -> str:
    kinds = set(judged)
    if {Judgement.FASTER, Judgement.SLOWER} <= kinds:
        return BOTH
    for kind, answer in (
        (Judgement.FASTER, FASTER),
        (Judgement.SLOWER, SLOWER),
        # A proven gain below a tenth is not worth a decision, so it never makes a client "faster".
        (Judgement.BARELY, BARELY),
        (Judgement.NO_GAIN, NO_GAIN),
    ):
        if kind in kinds:
            return answer if kinds == {kind} else answer + SOME
    return UNDECIDED


def _headline(ratios: Collection[Ratio], *, is_less_better: bool = False) -> str:
    """Return the bounds that all decided ratios keep: those of the better loads, then those of the worse ones."""
    groups: dict[Judgement, list[Ratio]] = {Judgement.FASTER: [], Judgement.SLOWER: []}
    for ratio in ratios:
        groups.setdefault(judge(ratio.inverse if is_less_better else ratio), []).append(ratio)
    return " or ".join(_bound(groups[kind]) for kind in (Judgement.FASTER, Judgement.SLOWER) if groups[kind])


def _bound(decided: Sequence[Ratio]) -> str:
    # The ends exist, because a ratio without an interval is not decided.
    low, high = min(ratio.low or 0.0 for ratio in decided), max(ratio.high or 0.0 for ratio in decided)
    return f"at least {times(low)}" if low > 1 else f"at most {times(high)}"


def _of_rates(ratios: Mapping[Load, Ratio], unit: str) -> list[str]:
    count = sum(judge(ratio) is Judgement.FASTER for ratio in ratios.values())
    words = {
        Judgement.FASTER: f"More {unit} under {count} of {plural(len(ratios), 'load')}",
        Judgement.BARELY: "A gain below a tenth",
        Judgement.NO_GAIN: f"No gain ({NO_GAIN_MEANS})",
        Judgement.SLOWER: "Slower",
        Judgement.UNDECIDED: _UNDECIDED_WORDS,
    }
    named = {describe_alone(load): (ratio, judge(ratio)) for load, ratio in ratios.items()}
    return _grouped(named, words)


def _of_waits(ratios: Mapping[str, Ratio], quantity: str) -> list[str]:
    words = {found: text.format(quantity) for found, text in _WAIT_WORDS.items()}
    return _grouped({name: (ratio, judge(ratio.inverse)) for name, ratio in ratios.items()}, words)


def _grouped(judged: Mapping[str, tuple[Ratio, Judgement]], words: Mapping[Judgement, str]) -> list[str]:
    lines = []
    for wanted, text in words.items():
        chosen = {name: ratio for name, (ratio, found) in judged.items() if found is wanted}
        if chosen:
            is_claim = wanted in (Judgement.FASTER, Judgement.BARELY, Judgement.SLOWER)
            lines.append(f"{text}: {_extremes(chosen) if is_claim else _intervals(chosen, wanted)}.")
    return lines


def _extremes(ratios: Mapping[str, Ratio]) -> str:
    """Return all ratios if they are few, otherwise the least and the greatest, which are named as such."""
    texts = [f"{measured(ratios[name])} for {name}" for name in sorted(ratios, key=lambda name: ratios[name].value)]
    return f"least {texts[0]}; greatest {texts[-1]}" if len(texts) > _LISTED_MAX else "; ".join(texts)


def _intervals(ratios: Mapping[str, Ratio], found: Judgement) -> str:
    # Without the ratios, because a ratio that proves nothing is not quoted.
    why = uncorrected if found is Judgement.UNDECIDED else lambda _ratio: ""
    named = [f"{name} ({ends(ratio)}{why(ratio)})" for name, ratio in ratios.items()]
    more = f"; and {len(named) - _LISTED_MAX} more" if len(named) > _LISTED_MAX else ""
    return "; ".join(named[:_LISTED_MAX]) + more


def _beside(comparison: Comparison, loads: Collection[Load], what: str = "") -> list[str]:
    found = []
    for mode in comparison.others:
        sides = zip(reversed(comparison.sides), (comparison.over_others, comparison.base_over_others), strict=True)
        for name, ratios in sides:
            own = {describe_alone(load): ratio for load, ratio in ratios[mode].items() if load in loads}
            if own:
                found.append(f"{what}{name} over {OTHER_NAMES.get(mode, mode)}: {_extremes(own)}.")
    return found


def _of_equal_load(comparison: Comparison) -> Decision:
    subject, loads = "Latency at equal load", paced(comparison)
    if not loads:
        why = "No open loop at a given rate was run, so latency at equal load is unknown."
        return Decision(subject, NOT_MEASURED, "", (why,))
    waits = {describe_paced(each.load): each.ratios["p99"] for each in loads if "p99" in each.ratios}
    lines = [*_of_waits(waits, "p99"), *lateness(loads), *unkept(loads, comparison.sides)]
    return Decision(subject, _answer_of_waits(waits), _headline_of_waits(waits), tuple(lines))


def _answer_of_waits(waits: Mapping[str, Ratio]) -> str:
    return _answer([judge(ratio.inverse) for ratio in waits.values()])


def _headline_of_waits(waits: Mapping[str, Ratio]) -> str:
    found = _headline(waits.values(), is_less_better=True)
    return found and f"p99 {found}"


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
    kept = f"the pace of {describe_paced(load)}" if load.offered_per_s else "its own pace"
    return f"{kept} ({why_unkept(side)})"


def why_unkept(side: PacedSide) -> str:
    if not side.requests:
        return "no measured request was sent"
    if not side.answered_share:
        return "no measured request was answered before the run ended"
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
    lines = [f"Reading, {line[0].lower()}{line[1:]}" for line in _of_rates(reading, "fetches")]
    fetches = {describe_alone(load): ratio for load in reading if (ratio := comparison.latency_ratios["p99"].get(load))}
    lines += [line for line in _of_waits(fetches, "p99 of a fetch") if line.startswith("Longer")]
    waits = {
        f"{name} of {describe_paced(each.load)}": each.ratios[name]
        for each in timed
        for name in ("p50", "p99")
        if name in each.ratios
    }
    lines += _of_waits(waits, "wait from publishing to consuming")
    for each in timed:
        known = [(side.mode, side.latency_ms["p50"]) for side in each.sides if side.kept_pace and side.latency_ms]
        if known:
            medians = ", ".join(f"{mode} {milliseconds(p50.value)}" for mode, p50 in known)
            lines.append(f"p50 of {describe_paced(each.load)}: {medians}.")
    lines += [*_beside(comparison, reading, "Reading, "), *lateness(timed), *unkept(timed, comparison.sides)]
    judged = [*map(judge, reading.values()), *(judge(ratio.inverse) for ratio in waits.values())]
    return [Decision("Consumers", _answer(judged), "", tuple(lines))]


def _of_replay(comparison: Comparison, each: EqualLoad) -> Decision:
    subject = "Replayed events"
    unfair = unkept([each], comparison.sides)
    ratio = each.ratios.get("p99")
    # Either a side did not keep the pace, or the events are too few for a p99.
    if ratio is None:
        lines = unfair or ["The events are too few for a p99."]
        return Decision(subject, UNDECIDED, "", tuple(lines))
    waits = {"the recorded pace": ratio}
    sides = [side for side in each.sides if side.side in (0, 1)]  # both have a p99, because their ratio exists
    absolute = ", ".join(f"{side.mode} {milliseconds(side.latency_ms['p99'].value)}" for side in sides)
    lines = [*_of_waits(waits, "p99"), f"p99: {absolute}.", *lateness([each])]
    return Decision(subject, _answer_of_waits(waits), _headline_of_waits(waits), tuple(lines))
