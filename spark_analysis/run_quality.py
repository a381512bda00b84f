"""The quality of a run: good, fair or poor, computed from five measures.

The light of a run is that of its worst measure. A wide interval does not make a run poor: it still decides which mode
is faster. A poor run makes no claims. A run is poor if

* no claim is decided, or no load has an interval,
* the interval of a mode compared with itself (A/A) excludes 1,
* other processes used more than 25 % of the cores' time (mean over the runs),
* a hypervisor gave more than 5 % of it to other machines,
* the client was at the limit of its core with both sides under every load, so the client was measured, not the brokers.

A run is good if

* half of the intervals are no wider than 1.5 times,
* the A/A interval is no wider than 1.1 times,
* other processes used at most 5 % of the time, and at most 1 % was given to other machines,
* the client had time left.

Measures that old traces lack are unknown, and keep a run from being good.
"""

from __future__ import annotations

import enum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

import attrs

from spark_analysis.cells import Cell
from spark_analysis.decision import NOT_MEASURED, POOR, UNDECIDED, Decision, decisions, withheld
from spark_analysis.findings import NO_NOISE, noise_sentence
from spark_analysis.words import full_name, plural, times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_analysis.cells import Load, Run
    from spark_analysis.summary import Comparison


class Light(enum.IntEnum):
    """The quality of a run or a measure. An unknown measure is FAIR."""

    GOOD = 0
    FAIR = 1
    POOR = 2


WORDS: Final = {
    Light.GOOD: "Good run",
    Light.FAIR: "Fair run",
    Light.POOR: "Poor run: do not base a decision on it",
}
CLIENT_SHARE_MAX: Final = 0.9
"""The share of a core above which the client cannot send faster."""
SIZE_WIDTH_MAX: Final = 1.5
_OTHERS_SHARES: Final = (0.05, 0.25)
_STEAL_SHARES: Final = (0.01, 0.05)
_NOISE_WIDTH_MAX: Final = 1.1
_NAMED_MAX: Final = 3


@attrs.frozen
class Measure:
    name: str
    light: Light
    finding: str


@attrs.frozen
class RunQuality:
    measures: tuple[Measure, ...]

    @property
    def light(self) -> Light:
        return max(measure.light for measure in self.measures)

    @property
    def reasons(self) -> list[str]:
        return [measure.finding for measure in self.measures if measure.light is self.light]

    def claim(self, words: str) -> str:
        """Return the words of a claim, or of its absence: a poor run makes none."""
        return POOR.lower() if self.light is Light.POOR else words

    def decisions(self, comparison: Comparison) -> list[Decision]:
        found = decisions(comparison)
        return [withheld(each) for each in found] if self.light is Light.POOR else found

    @property
    def sentence(self) -> str:
        why = "; ".join(self.reasons)
        return f"{WORDS[self.light]}. {why[0].upper()}{why[1:]}."


def run_quality(comparison: Comparison) -> RunQuality:
    measures = (_intervals, _others, _steal, _client, _noise)
    return RunQuality(tuple(measure(comparison) for measure in measures))


def _light(value: float, bounds: tuple[float, float]) -> Light:
    good, fair = bounds
    return Light.GOOD if value <= good else Light.FAIR if value <= fair else Light.POOR


def _intervals(comparison: Comparison) -> Measure:
    ratios = list(comparison.speedups.values()) or [
        each.ratios["p99"] for each in comparison.equal_loads if "p99" in each.ratios
    ]
    widths = [ratio.width for ratio in ratios if ratio.width is not None]
    if not widths:
        return Measure("intervals", Light.POOR, "no load has an interval, which needs three rounds of both sides")
    claims = decisions(comparison)
    if claims and all(claim.answer in (UNDECIDED, NOT_MEASURED) for claim in claims):
        return Measure("intervals", Light.POOR, "no claim is decided")
    middle = median(widths)
    wide = sum(width > SIZE_WIDTH_MAX for width in widths)
    finding = f"the upper end of the median interval is {times(middle)} its lower end"
    if wide:
        finding += f"; the size of {wide} of {len(widths)} ratios is uncertain"
    return Measure("intervals", Light.GOOD if middle <= SIZE_WIDTH_MAX else Light.FAIR, finding)


def _others(comparison: Comparison) -> Measure:
    unknown = "the time that other processes used is unknown"
    return _taken(comparison, "others", "other processes used {}", _OTHERS_SHARES, unknown)


def _steal(comparison: Comparison) -> Measure:
    unknown = "the time that a hypervisor gave to other machines is unknown"
    return _taken(comparison, "steal", "a hypervisor gave other machines {}", _STEAL_SHARES, unknown)


def _taken(comparison: Comparison, name: str, finding: str, bounds: tuple[float, float], unknown: str) -> Measure:
    # Another broker may have been started by the user, so that it would be one of the others in its own runs.
    runs = [run for run in comparison.figures.runs if run.side in (0, 1)]
    shares = [share for run in runs if (share := _number(run.machine, f"{name}_share")) is not None]
    if not shares:
        return Measure(name, Light.FAIR, unknown)
    taken = f"{_of_cores(fmean(shares), runs)} on average, and at most {_of_cores(max(shares), runs)} in a run"
    return Measure(name, _light(fmean(shares), bounds), finding.format(taken))


def _of_cores(share: float, runs: Sequence[Run]) -> str:
    cores = next((found for run in runs if (found := _number(run.machine, "cores"))), None)
    return f"{share * cores:.2f} of {cores:.0f} cores" if cores else f"{share:.1%} of the time of all cores"


def _client(comparison: Comparison) -> Measure:
    shares: dict[Load, float] = {}
    for load in comparison.speedups:
        cells = [comparison.cells.get(Cell(mode, load)) for mode in comparison.sides]
        found = [cell.client_cpu_share for cell in cells if cell is not None and cell.client_cpu_share is not None]
        if found:
            # A side that the client cannot load fully is at least as fast as measured, so one such side leaves a claim
            # sound.
            shares[load] = min(found)
    if not shares:
        return Measure("client", Light.FAIR, "the client's processor time is unknown")
    bound = [load for load, share in shares.items() if share >= CLIENT_SHARE_MAX]
    if not bound:
        most = max(shares.values())
        return Measure("client", Light.GOOD, f"the client took at most {most:.0%} of a core with the slower side")
    finding = (
        f"with both sides the client was at the limit of a core under {len(bound)} of {plural(len(shares), 'load')}"
    )
    named = f" ({'; '.join(map(full_name, bound))})" if len(bound) <= _NAMED_MAX else ""
    return Measure("client", Light.POOR if len(bound) == len(shares) else Light.FAIR, finding + named)


def _noise(comparison: Comparison) -> Measure:
    noise = comparison.noise
    if noise is None or noise.rate.width is None:
        return Measure(
            "A/A", Light.FAIR, NO_NOISE.rstrip(".") if noise is None else noise_sentence(comparison).rstrip(".")
        )
    light = Light.GOOD if noise.rate.width <= _NOISE_WIDTH_MAX else Light.FAIR
    sentence = noise_sentence(comparison).rstrip(".")
    if noise.rate.excludes_one:
        return Measure("A/A", Light.POOR, f"two equal brokers differ: {sentence}")
    return Measure("A/A", light, sentence)


def _number(facts: dict[str, Any], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
