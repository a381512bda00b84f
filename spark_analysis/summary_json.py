"""`summary.json`, the results of a comparison for programs, as docs/reference/trace-format.md declares it.

A missing number is null, never 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from spark_analysis.breakdown import Breakdown, beyond_chance
from spark_analysis.cells import PERCENTILES, Load, number
from spark_analysis.findings import verdict
from spark_analysis.run_quality import Light
from spark_analysis.tables import ABLATION_MODES, SUMMARY_SCHEMA

if TYPE_CHECKING:
    from spark_analysis.cells import Cell, Run
    from spark_analysis.costs import StoreCost
    from spark_analysis.effects import Effect
    from spark_analysis.interval import Estimate, Ratio
    from spark_analysis.offered import EqualLoad, PacedSide
    from spark_analysis.run_quality import RunQuality
    from spark_analysis.summary import CellFigures, Comparison


def summary(comparison: Comparison, quality: RunQuality) -> dict[str, Any]:
    cells = comparison.cells.items()
    return {
        "schema": SUMMARY_SCHEMA,
        "machine": comparison.machine,
        "runs": [_run(run) for run in sorted(comparison.figures.runs, key=lambda run: run.number)],
        "quality": _quality(quality),
        "decisions": [
            {"subject": each.subject, "answer": each.answer, "lines": list(each.lines)}
            for each in quality.decisions(comparison)
        ],
        "cells": [_cell(cell) for key, cell in cells if key.mode not in ABLATION_MODES],
        "ablation": [_cell(cell) for key, cell in cells if key.mode in ABLATION_MODES],
        "speedups": [
            _speedup(load, ratio, {name: found.get(load) for name, found in comparison.latency_ratios.items()})
            for load, ratio in comparison.speedups.items()
        ],
        "equal_load": [_equal_load(each) for each in comparison.equal_loads],
        "stages": [_breakdown(comparison, found) for found in comparison.breakdowns.values()],
        "self": _noise(comparison),
        **({"store": _store(comparison)} if comparison.store_costs else {}),
        **({"over_others": _over_others(comparison)} if comparison.others else {}),
        **({"base_over_others": _base_over_others(comparison)} if comparison.others else {}),
        **({"over_classic": _over_classic(comparison)} if comparison.ablation else {}),
        **({"factors": [_effect(effect) for effect in comparison.effects]} if comparison.effects else {}),
        "verdict": verdict(comparison, is_poor=quality.light is Light.POOR),
    }


def _quality(quality: RunQuality) -> dict[str, Any]:
    measures = [
        {"name": measure.name, "light": measure.light.name.lower(), "said": measure.finding}
        for measure in quality.measures
    ]
    return {"light": quality.light.name.lower(), "measures": measures}


# Keys of `machine` that differ between runs.
_OF_A_RUN = ("others_share", "steal_share")


def _run(run: Run) -> dict[str, Any]:
    facts = {name: run.machine.get(name) for name in _OF_A_RUN}
    return {
        "run": run.number,
        "round": run.round,
        "side": run.side,
        "mode": run.cell.mode,
        "traced": run.traced,
        **facts,
    }


def _load(load: Load) -> dict[str, Any]:
    return {
        "in_flight": load.in_flight,
        "connections": load.connections,
        "commit_delay_ms": number(load.commit_delay_ms),
        "client": load.client,
        **({"variant": load.variant} if load.variant else {}),
        **_offered(load),
    }


def _offered(load: Load) -> dict[str, Any]:
    if not load.offered_per_s:
        return {}
    share = {"offered_of": load.offered_of, "offered_share": load.offered_share} if load.offered_of else {}
    return {**share, "offered_per_s": _rounded(load.offered_per_s)}


def _cell(cell: CellFigures) -> dict[str, Any]:
    load = cell.cell.load
    return {
        "mode": cell.cell.mode,
        "client": load.client,
        "in_flight": load.in_flight,
        "connections": load.connections,
        "commit_delay_ms": number(load.commit_delay_ms),
        **({"variant": load.variant} if load.variant else {}),
        **_offered(load),
        "requests": cell.requests,
        "requests_per_s": _rounded(cell.requests_per_s),
        **{f"{name}_ms": _rounded(getattr(cell, f"{name}_ms")) for name in PERCENTILES},
        "rounds": [
            {
                "round": each.round,
                "side": each.side,
                "requests_per_s": _rounded(each.requests_per_s),
                **{f"{name}_ms": _rounded(getattr(each, f"{name}_ms")) for name in PERCENTILES},
            }
            for each in cell.rounds
        ],
        "order_violations": cell.order_violations,
    }


def _speedup(load: Load, ratio: Ratio, latencies: dict[str, Ratio | None]) -> dict[str, Any]:
    return {
        **_rate_ratio(load, ratio),
        "corrected_p": _rounded(ratio.corrected),
        **{name: None if found is None else _latency_ratio(found) for name, found in latencies.items()},
    }


def _rate_ratio(load: Load, ratio: Ratio) -> dict[str, Any]:
    return {**_load(load), **_ratio(ratio, "speedup"), "rounds": ratio.rounds}


def _latency_ratio(ratio: Ratio) -> dict[str, Any]:
    return {**_ratio(ratio), "rounds": ratio.rounds, "corrected_p": _rounded(ratio.corrected)}


def _equal_load(each: EqualLoad) -> dict[str, Any]:
    return {
        **_load(each.load),
        "sides": [_side(side) for side in each.sides],
        **{name: _latency_ratio(each.ratios[name]) if name in each.ratios else None for name in PERCENTILES},
    }


def _side(side: PacedSide) -> dict[str, Any]:
    found = {f"{name}_ms": side.latency_ms.get(name) if side.kept_pace else None for name in PERCENTILES}
    found |= {f"sent_{name}_ms": side.sent_latency_ms.get(name) if side.kept_pace else None for name in PERCENTILES}
    return {
        "mode": side.mode,
        "side": side.side,
        "rounds": side.runs,
        "requests": side.requests,
        "answered_share": _rounded(side.answered_share),
        "late_ms": _rounded(side.late_ms),
        "kept_pace": side.kept_pace,
        **{name: None if value is None else _estimate(value) for name, value in found.items()},
    }


def _breakdown(comparison: Comparison, found: Breakdown) -> dict[str, Any]:
    cause = comparison.cause(found.cell.load) if found.cell.mode == comparison.sides[1] else None
    return {
        "mode": found.cell.mode,
        **_load(found.cell.load),
        "rounds": len(found.rounds),
        "total_us": _estimate(found.total),
        "parts_us": {name: _estimate(part) for name, part in found.parts.items()},
        **(
            {
                "cause": {
                    "part": cause.part,
                    "share": _rounded(cause.share),
                    "difference_us": _estimate(cause.difference),
                }
            }
            if cause is not None and beyond_chance(cause.difference)
            else {}
        ),
    }


def _store(comparison: Comparison) -> dict[str, Any]:
    prices = comparison.prices
    cells = [_store_cost(cell, cost) for cell, cost in comparison.store_costs.items()]
    return {"put_dollars_per_million": prices.put, "get_dollars_per_million": prices.get, "cells": cells}


def _store_cost(cell: Cell, cost: StoreCost) -> dict[str, Any]:
    estimates = ("puts_per_s", "requests_per_put", "puts_per_gb", "dollars_per_gb", "dollars_per_month")
    found = {name: getattr(cost, name) for name in estimates}
    return {
        "mode": cell.mode,
        **_load(cell.load),
        "rounds": len(cost.runs),
        "puts": cost.puts,
        "gets": cost.gets,
        "unsure": sum(run.unsure for run in cost.runs),
        "failed": sum(run.failed for run in cost.runs),
        "written_bytes": sum(run.written_bytes for run in cost.runs),
        **{name: None if value is None else _estimate(value) for name, value in found.items()},
    }


def _noise(comparison: Comparison) -> dict[str, Any] | None:
    noise = comparison.noise
    if noise is None:
        return None
    return {
        "mode": noise.mode,
        **_ratio(noise.rate),
        "rounds": noise.rate.rounds,
        "called_different": noise.called,
        **{name: None if ratio is None else _ratio(ratio) for name, ratio in (("p50", noise.p50), ("p99", noise.p99))},
        "loads": [_rate_ratio(load, ratio) for load, ratio in noise.loads.items()],
    }


def _over_others(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "mode": mode,
            **_speedup(
                load,
                ratio,
                {name: found.get(load) for name, found in comparison.latency_over_others[mode].items()},
            ),
        }
        for mode, ratios in comparison.over_others.items()
        for load, ratio in ratios.items()
    ]


def _base_over_others(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {"mode": mode, **_rate_ratio(load, ratio)}
        for mode, ratios in comparison.base_over_others.items()
        for load, ratio in ratios.items()
    ]


def _over_classic(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {"mode": cell.mode, **_rate_ratio(cell.load, ratio)}
        for cell, ratio in comparison.ablation.items()
        if ratio is not None
    ]


def _effect(effect: Effect) -> dict[str, Any]:
    over = {f"over_first_{side}": _ratio(ratio) for side, ratio in enumerate(effect.over_first or ())}
    return {
        "factor": effect.factor,
        "level": effect.level,
        "loads": effect.loads,
        **_ratio(effect.speedup, "speedup"),
        "rounds": effect.speedup.rounds,
        **over,
    }


def _ratio(ratio: Ratio, name: str = "ratio") -> dict[str, Any]:
    return {name: _rounded(ratio.value), "low": _rounded(ratio.low), "high": _rounded(ratio.high)}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": _rounded(estimate.value), "low": _rounded(estimate.low), "high": _rounded(estimate.high)}


def _rounded(value: float | None) -> float | None:
    """Round to nine significant digits, which hides the noise of binary fractions. NaN and infinity become None."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.9g}")
