"""A mode compared with itself (A/A): what a difference of the machine alone looks like.

Rules: both sides of such a pair are the same, so every true ratio is 1. Loads are taken together, each with the same
weight: one round gives one sample, the geometric mean of the ratios of all loads that both sides ran in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from spark_analysis.cells import Load, Run, rate
from spark_analysis.interval import Ratio, geometric_interval, ratio_interval
from spark_analysis.pairs import percentile, ratios, rounds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_analysis.pairs import Quantity


@attrs.frozen
class Noise:
    """What an A/A experiment found.

    Attributes:
        mode: what was compared with itself.
        rate: requests a second, side 1 over side 0, over all loads.
        p50, p99: latency in the same way; None where samples are too few.
        loads: the ratio of rates under each load, corrected as one family.
    """

    mode: str
    rate: Ratio
    p50: Ratio | None
    p99: Ratio | None
    loads: dict[Load, Ratio]

    @property
    def holding(self) -> int:
        """How many intervals hold 1, before any correction."""
        return sum(ratio.low is not None and not ratio.excludes_one for ratio in self.loads.values())

    @property
    def called(self) -> int:
        """Under how many loads the sides would be called different."""
        return sum(ratio.above or ratio.below for ratio in self.loads.values())


def compared_with_itself(runs: Iterable[Run]) -> Noise | None:
    """The A/A part of an experiment; None where no round has both sides of it.

    Args:
        runs: of A/A only.
    """
    untraced = [run for run in runs if not run.traced and run.side in (0, 1)]
    found = _together(untraced, rate)
    if found is None:
        return None
    p50, p99 = (_together(untraced, percentile(name)) for name in ("p50", "p99"))
    return Noise(untraced[0].cell.mode, found, p50, p99, ratios(untraced, 0))


def _together(runs: Sequence[Run], quantity: Quantity) -> Ratio | None:
    samples: dict[int, list[float]] = {}
    for load in dict.fromkeys(run.cell.load for run in runs):
        mine = [run for run in runs if run.cell.load == load]
        sides = ([run for run in mine if run.side == side] for side in (0, 1))
        for number, (zeros, ones) in rounds_of(*sides).items():
            zero, one = (quantity(side) if side else None for side in (zeros, ones))
            if zero and one:
                samples.setdefault(number, []).append(one / zero)
    means = (geometric_interval(values) for values in samples.values())
    return ratio_interval([mean.value for mean in means if mean is not None])
