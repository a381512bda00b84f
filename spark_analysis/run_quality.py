"""How far a run can be trusted: a light, good, fair or poor, computed and never chosen.

Rules: four measures, each with two bounds; the light is the worst of them. What old traces do not tell is said to be
unknown, and does not make a run good. Bounds:
    intervals: the median over the loads of upper end / lower end: 1.5 and 2;
    load:      the load average a core before the first run, that is before the experiment itself made any: 0.25, 0.75;
    steal:     what a hypervisor gave to others of the cores' time, mean over the runs: 1 % and 5 %;
    A/A:       a mode against itself: its interval holds 1 and is no wider than 1.1 times (good) or 1.3 times (fair).
"""

from __future__ import annotations

import enum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

import attrs

from spark_analysis.findings import NO_NOISE, noise_sentence
from spark_analysis.words import times

if TYPE_CHECKING:
    from spark_analysis.summary import Comparison


class Light(enum.IntEnum):
    """From good to poor; a measure that is not known is between them."""

    GOOD = 0
    FAIR = 1
    POOR = 2


WORDS: Final = {
    Light.GOOD: "Good run",
    Light.FAIR: "Fair run",
    Light.POOR: "Poor run: do not decide by it",
}
_WIDTHS: Final = (1.5, 2.0)
_LOADS_A_CORE: Final = (0.25, 0.75)
_STEAL_SHARES: Final = (0.01, 0.05)
_NOISE_WIDTHS: Final = (1.1, 1.3)


@attrs.frozen
class Measure:
    """One of the four measures: its light and what is said of it."""

    name: str
    light: Light
    said: str


@attrs.frozen
class RunQuality:
    """The light of a run and what it was computed from."""

    measures: tuple[Measure, ...]

    @property
    def light(self) -> Light:
        """The worst of the measures."""
        return max(measure.light for measure in self.measures)

    @property
    def reasons(self) -> list[str]:
        """What is said of the measures that are as bad as the light."""
        return [measure.said for measure in self.measures if measure.light is self.light]

    @property
    def sentence(self) -> str:
        """The light in words, and why, for a terminal."""
        why = "; ".join(self.reasons)
        return f"{WORDS[self.light]}. {why[0].upper()}{why[1:]}."


def run_quality(comparison: Comparison) -> RunQuality:
    """The light of an experiment."""
    measures = (_intervals(comparison), _load(comparison), _steal(comparison), _noise(comparison))
    return RunQuality(measures)


def _light(value: float, bounds: tuple[float, float]) -> Light:
    good, fair = bounds
    return Light.GOOD if value <= good else Light.FAIR if value <= fair else Light.POOR


def _intervals(comparison: Comparison) -> Measure:
    widths = [ratio.width for ratio in comparison.speedups.values() if ratio.width is not None]
    if not widths:
        return Measure("intervals", Light.POOR, "no load has an interval: there was one round, or no pair")
    middle = median(widths)
    wide = sum(_light(width, _WIDTHS) is Light.POOR for width in widths)
    said = f"half of the intervals are wider than {times(middle)} from end to end"
    said += f", {wide} of {len(widths)} wider than {times(_WIDTHS[1])}" if wide else ""
    return Measure("intervals", _light(middle, _WIDTHS), said)


def _load(comparison: Comparison) -> Measure:
    runs = sorted(comparison.figures.runs, key=lambda run: run.number)
    average = next((found for run in runs if (found := _number(run.machine, "load_average_before")) is not None), None)
    cores = next((found for run in runs if (found := _number(run.machine, "cores"))), None)
    if average is None or not cores:
        return Measure("load average", Light.FAIR, "the load average before the experiment is not known")
    said = f"load average {average:.1f} on {cores:.0f} cores before the first run"
    return Measure("load average", _light(average / cores, _LOADS_A_CORE), said)


def _steal(comparison: Comparison) -> Measure:
    shares = [_number(run.machine, "steal_share") for run in comparison.figures.runs]
    known = [share for share in shares if share is not None]
    if not known:
        return Measure("steal", Light.FAIR, "how much time a hypervisor took is not known")
    said = f"a hypervisor gave {fmean(known):.1%} of the cores' time to others, at most {max(known):.1%} in a run"
    return Measure("steal", _light(fmean(known), _STEAL_SHARES), said)


def _noise(comparison: Comparison) -> Measure:
    noise = comparison.noise
    if noise is None or noise.rate.width is None:
        return Measure(
            "A/A", Light.FAIR, NO_NOISE.rstrip(".") if noise is None else noise_sentence(comparison).rstrip(".")
        )
    light = Light.POOR if noise.rate.excludes_one else _light(noise.rate.width, _NOISE_WIDTHS)
    return Measure("A/A", light, noise_sentence(comparison).rstrip("."))


def _number(facts: dict[str, Any], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
