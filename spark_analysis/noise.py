"""The comparison of a mode with itself (A/A): the differences that come from the machine alone.

Both sides are equal, so every true ratio is 1. All loads are combined with the same weight. One round gives one sample:
the geometric mean of the ratios of all loads that both sides ran in it.
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
    """The result of an A/A experiment.

    Attributes:
        mode: the mode that was compared with itself.
        rate: requests per second, side 1 over side 0, over all loads.
        p50, p99: latency, combined in the same way; None if samples are too few.
        loads: the ratio of the rates under each load, corrected as one family.
    """

    mode: str
    rate: Ratio
    p50: Ratio | None
    p99: Ratio | None
    loads: dict[Load, Ratio]

    @property
    def holding(self) -> int:
        """The number of intervals that contain 1, before any correction."""
        return sum(ratio.low is not None and not ratio.excludes_one for ratio in self.loads.values())

    @property
    def called(self) -> int:
        return sum(ratio.above or ratio.below for ratio in self.loads.values())


def compared_with_itself(runs: Iterable[Run]) -> Noise | None:
    """Return the result of the A/A runs; None if no round has both sides.

    Args:
        runs: the A/A runs only.
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
                # One sample per round, not per load: loads of a round share the state of the machine.
                samples.setdefault(number, []).append(one / zero)
    means = (geometric_interval(values) for values in samples.values())
    return ratio_interval([mean.value for mean in means if mean is not None])
