"""The judgement of a ratio: faster, barely faster, no gain, slower, or undecided.

A claim needs an interval that excludes 1, also after the correction for its family (`multiplicity`). "No gain" is a
claim too: its interval must exclude a gain of GAIN_MIN. All other ratios are undecided; the report gives no reason and
no large number for them.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from spark_analysis.words import ends, uncorrected

if TYPE_CHECKING:
    from spark_analysis.interval import Ratio

GAIN_MIN: Final = 1.1
"""The smallest gain that is worth a decision: a tenth."""


NO_GAIN_MEANS: Final = "a gain of a tenth is excluded"
UNDECIDED_MEANS: Final = "a gain is neither proven nor excluded"
FINDINGS_NOTE: Final = f"No gain: {NO_GAIN_MEANS}. Not decided: {UNDECIDED_MEANS}"


class Judgement(enum.Enum):
    """The judgement of a ratio. Latencies are judged with the sides exchanged, so that above 1 is better."""

    FASTER = "faster"
    BARELY = "faster by less than a tenth"
    NO_GAIN = "no gain"
    SLOWER = "slower"
    UNDECIDED = "not decided"


def judge(ratio: Ratio) -> Judgement:
    if ratio.low is None or ratio.high is None:
        return Judgement.UNDECIDED
    if ratio.below:
        return Judgement.SLOWER
    if ratio.above:
        return Judgement.FASTER if ratio.value >= GAIN_MIN else Judgement.BARELY
    return Judgement.NO_GAIN if ratio.high < GAIN_MIN else Judgement.UNDECIDED


def rate_finding(ratio: Ratio) -> str:
    """Return the judgement of a rate in words, with the reason if it is undecided. Above 1 is better."""
    return _finding(judge(ratio), ratio, {Judgement.NO_GAIN: f"no gain: {ends(ratio)}"})


def latency_finding(ratio: Ratio) -> str:
    """Return the judgement of a latency in words. Below 1 is better; the interval shown is that of the latency."""
    words = {
        Judgement.FASTER: "shorter",
        Judgement.BARELY: "shorter by less than a tenth",
        Judgement.NO_GAIN: f"no shorter: {ends(ratio)}",
        Judgement.SLOWER: "longer",
    }
    return _finding(judge(ratio.inverse), ratio, words)


def _finding(found: Judgement, ratio: Ratio, words: dict[Judgement, str]) -> str:
    if found is not Judgement.UNDECIDED:
        return words.get(found) or str(found.value)
    if ratio.low is None:
        return "not decided: too few rounds for an interval"
    return f"not decided: the interval is {ends(ratio)}{uncorrected(ratio)}"
