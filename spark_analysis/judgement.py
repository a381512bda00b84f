"""What a ratio decides: pays, a small gain, no gain, worse, or nothing.

Rules: a claim is made only where the interval lies on one side of 1 after the correction for the family
(`multiplicity`). "No gain" is a claim too: the interval must exclude a gain that would be worth it. All else is not
decided, and what is not decided has no reason and no number in large type.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from spark_analysis.words import ends

if TYPE_CHECKING:
    from spark_analysis.interval import Ratio

GAIN_MIN: Final = 1.1
"""What a gain must be to be worth a decision: a tenth."""


class Judgement(enum.Enum):
    """What a ratio decides; of latencies with the sides exchanged, so that above 1 is better."""

    PAYS = "pays"
    SMALL = "small gain"
    NO_GAIN = "no gain"
    WORSE = "worse"
    UNDECIDED = "not decided"


def judge(ratio: Ratio) -> Judgement:
    """The judgement of a ratio of which above 1 is better."""
    if ratio.low is None or ratio.high is None:
        return Judgement.UNDECIDED
    if ratio.below:
        return Judgement.WORSE
    if ratio.above:
        return Judgement.PAYS if ratio.value >= GAIN_MIN else Judgement.SMALL
    return Judgement.NO_GAIN if ratio.high < GAIN_MIN else Judgement.UNDECIDED


def said(ratio: Ratio) -> str:
    """Return the judgement of a rate in a few words, with the reason where nothing is decided; above 1 is better."""
    return _said(judge(ratio), ratio, {Judgement.NO_GAIN: f"no gain: {ends(ratio)}", Judgement.WORSE: "slower"})


def said_of_wait(ratio: Ratio) -> str:
    """Return the same of a latency, of which below 1 is better; its interval is that of the latency."""
    words = {
        Judgement.PAYS: "shorter",
        Judgement.SMALL: "shorter by less than a tenth",
        Judgement.NO_GAIN: f"no shorter: {ends(ratio)}",
        Judgement.WORSE: "longer",
    }
    return _said(judge(ratio.inverse), ratio, words)


def _said(found: Judgement, ratio: Ratio, words: dict[Judgement, str]) -> str:
    if found is not Judgement.UNDECIDED:
        return words.get(found) or str(found.value)
    if ratio.low is None:
        return "not decided: too few rounds for an interval"
    if ratio.excludes_one:
        return "not decided: beyond chance alone, but not among so many loads"
    return f"not decided: anything from {ends(ratio)}"
