"""The quality of a run: good, fair or poor, computed from five measures.

The light of a run is that of its worst measure. A wide interval does not make a run poor: it still decides which mode
is faster, and a claim states only the certain part of the size. A run is poor if

* no claim is decided, or no load has an interval,
* the interval of a mode compared with itself (A/A) excludes 1,
* the machine was busy: a load average above 0.75 per core before the first run,
* a hypervisor gave more than 5 % of the cores' time to others (mean over the runs),
* the client was at the limit of its core with both sides under every load, so the client was measured, not the brokers.

A run is good if

* half of the intervals are no wider than 1.5 times,
* the A/A interval is no wider than 1.1 times,
* the load average is at most 0.25 per core, and at most 1 % of the time was given to others,
* the client had time left.

Measures that old traces lack are unknown, and keep a run from being good.
"""

from __future__ import annotations

import enum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

import attrs

from spark_analysis.cells import Cell
from spark_analysis.decision import NOT_MEASURED, UNDECIDED, decisions
from spark_analysis.findings import NO_NOISE, noise_sentence
from spark_analysis.words import SIZE_WIDTH_MAX, full_name, plural, times

if TYPE_CHECKING:
    from spark_analysis.cells import Load
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
_LOADS_A_CORE: Final = (0.25, 0.75)
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

    @property
    def sentence(self) -> str:
        why = "; ".join(self.reasons)
        return f"{WORDS[self.light]}. {why[0].upper()}{why[1:]}."


def run_quality(comparison: Comparison) -> RunQuality:
    measures = (_intervals, _load, _steal, _client, _noise)
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


def _load(comparison: Comparison) -> Measure:
    runs = sorted(comparison.figures.runs, key=lambda run: run.number)
    average = next((found for run in runs if (found := _number(run.machine, "load_average_before")) is not None), None)
    cores = next((found for run in runs if (found := _number(run.machine, "cores"))), None)
    if average is None or not cores:
        return Measure("load average", Light.FAIR, "the load average before the experiment is unknown")
    finding = f"load average {average:.1f} on {cores:.0f} cores before the first run"
    return Measure("load average", _light(average / cores, _LOADS_A_CORE), finding)


def _steal(comparison: Comparison) -> Measure:
    shares = [_number(run.machine, "steal_share") for run in comparison.figures.runs]
    known = [share for share in shares if share is not None]
    if not known:
        return Measure("steal", Light.FAIR, "the time that a hypervisor gave to others is unknown")
    mean, most = f"{fmean(known):.1%}", f"{max(known):.1%}"
    finding = f"a hypervisor gave {mean} of the cores' time to others on average, and at most {most} in a run"
    return Measure("steal", _light(fmean(known), _STEAL_SHARES), finding)


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
    light = Light.POOR if noise.rate.excludes_one else light
    return Measure("A/A", light, noise_sentence(comparison).rstrip("."))


def _number(facts: dict[str, Any], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
