"""The section about the effects of several varied factors.

The section exists only if every combination of the levels was run. Otherwise a mean over loads would compare loads
that differ in more than one factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_analysis.report.common import forest, ratio_cell, side_names
from spark_analysis.report.markup import NOTHING, Markup, paragraph, section, table

if TYPE_CHECKING:
    from spark_analysis.effects import Effect
    from spark_analysis.summary import Comparison

_FIRST = "1"


def factors(comparison: Comparison) -> Markup:
    effects = comparison.effects
    if not effects:
        return NOTHING
    explanation = (
        "The experiment ran every combination of the levels below. The speed-up of a level is the geometric mean over "
        "all loads with this level, so it does not depend on one lucky load. Rates are compared with those of the "
        "factor's first level, load by load, with all other factors equal. The factor that changes the speed-up most "
        "comes first. A mean hides how factors act together; the maps and panels below show these interactions."
    )
    return section("factors", "What each factor does", paragraph(explanation), _forest(comparison), _table(comparison))


def _name(effect: Effect) -> str:
    return f"{effect.factor}: {effect.level}"


def _forest(comparison: Comparison) -> Markup:
    zero, one = side_names(comparison)
    title = f"Throughput of {one} over {zero}, by factor and level"
    note = "Dot: geometric mean over loads and rounds; line: 95% interval over rounds; dotted line: no difference."
    return forest(title, [(_name(effect), effect.speedup) for effect in comparison.effects], note)


def _table(comparison: Comparison) -> Markup:
    head = ["Factor and level", "Loads", "Speed-up", *(f"{name}, rate" for name in side_names(comparison))]
    rows = []
    for effect in comparison.effects:
        rates = [ratio_cell(ratio) for ratio in effect.over_first] if effect.over_first else [_FIRST, _FIRST]
        rows.append([_name(effect), effect.loads, ratio_cell(effect.speedup), *rates])
    return table("Effect of each level of each factor; rates over those at the factor's first level", head, rows)
