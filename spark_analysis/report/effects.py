"""The section for somebody who has varied several factors: what each of them does.

Rules: as in `overview`. Only where every combination of the levels was run; elsewhere a mean over loads would compare
loads that differ in more than one factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_analysis.report.common import forest, ratio_said, side_names
from spark_analysis.report.markup import NOTHING, Markup, paragraph, section, table

if TYPE_CHECKING:
    from spark_analysis.effects import Effect
    from spark_analysis.summary import Comparison

_FIRST = "1"


def factors(comparison: Comparison) -> Markup:
    """The speed-up at each level of each factor, and how the rates of both sides follow the factor."""
    effects = comparison.effects
    if not effects:
        return NOTHING
    said = (
        "Every combination of the levels below was run. A figure of a level is the geometric mean over all loads that "
        "have it, so it is not that of one lucky load; rates are compared with those of the factor's first level, "
        "load by load, all other factors alike. The factor that changes the speed-up most comes first. A mean hides "
        "how factors act together: the maps and panels below show that."
    )
    return section("factors", "What each factor does", paragraph(said), _forest(comparison), _table(comparison))


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
        rates = [ratio_said(ratio) for ratio in effect.over_first] if effect.over_first else [_FIRST, _FIRST]
        rows.append([_name(effect), effect.loads, ratio_said(effect.speedup), *rates])
    return table("What each level of each factor does; rates over those at the factor's first level", head, rows)
