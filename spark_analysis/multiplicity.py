"""Holm's correction for testing many loads at once.

An experiment tests for each load whether the sides differ. With 20 loads and equal sides, one 95 % interval of the 20
excludes 1 by chance. So a claim "faster" or "slower" must survive Holm's correction over its family. Then the chance of
one false claim among *all* loads of the family is at most 5 %, however they depend on each other.

A family is one quantity (throughput, p50, p99 or p99.9) over all loads of one experiment: the native client's grid,
the ordinary clients, the ladder, the replay, or a sweep. The correction decides the words; intervals are shown
uncorrected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_analysis.interval import Ratio

Name = TypeVar("Name")


def holm(chances: Sequence[float]) -> list[float]:
    """Return the p-values after Holm's step-down correction, in the given order.

    A family is tested at 5 % by comparing the results with 0.05 (S. Holm, A simple sequentially rejective multiple test
    procedure, 1979).
    """
    ascending = sorted(range(len(chances)), key=chances.__getitem__)
    found = [1.0] * len(chances)
    least = 0.0
    for place, number in enumerate(ascending):
        # Corrected p-values must not decrease along the order, or a larger p-value could be rejected before a smaller
        # one.
        least = max(least, min(1.0, chances[number] * (len(chances) - place)))
        found[number] = least
    return found


def corrected(family: Mapping[Name, Ratio]) -> dict[Name, Ratio]:
    """Return the ratios of a family with corrected p-values; None where a ratio has no interval and does not count."""
    asked = {name: ratio.chance for name, ratio in family.items() if ratio.chance is not None}
    found = dict(zip(asked, holm(list(asked.values())), strict=True))
    return {name: attrs.evolve(ratio, corrected=found.get(name)) for name, ratio in family.items()}
