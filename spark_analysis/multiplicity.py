"""Many questions at once: Holm's correction.

Rules: an experiment asks of each load whether the sides differ. With 20 loads and equal sides one interval of 95 % in
20 lies beside 1 by chance alone, so a claim "faster" or "slower" is made only where it survives Holm's correction over
its family: then the chance of one false claim among *all* loads of the family is 5 % at most, however they depend on
each other. A family is one quantity (throughput, p50, p99 or p99.9) over all loads of one experiment: the native
client's grid, the ordinary clients, the ladder, the replay, a sweep. Intervals are shown as they are; the correction
decides about words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_analysis.interval import Ratio

Name = TypeVar("Name")


def holm(chances: Sequence[float]) -> list[float]:
    """The p-values after Holm's step-down correction, in the order in which they were given.

    A family is tested at 5 % by comparing these with 0.05 (S. Holm, A simple sequentially rejective multiple test
    procedure, 1979).
    """
    ascending = sorted(range(len(chances)), key=chances.__getitem__)
    found = [1.0] * len(chances)
    least = 0.0
    for place, number in enumerate(ascending):
        least = max(least, min(1.0, chances[number] * (len(chances) - place)))
        found[number] = least
    return found


def corrected(family: Mapping[Name, Ratio]) -> dict[Name, Ratio]:
    """The ratios of a family with their corrected chances; those without an interval make no claim and do not count."""
    asked = {name: ratio.chance for name, ratio in family.items() if ratio.chance is not None}
    found = dict(zip(asked, holm(list(asked.values())), strict=True))
    return {name: attrs.evolve(ratio, corrected=found.get(name)) for name, ratio in family.items()}
