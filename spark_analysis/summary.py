"""From figures to comparison: cells, speed-ups, ablation, the price of tracing, and `summary.json`.

Rules: plain Python over `Figures`. A speed-up compares side 1 with side 0 of the same round and load; the ablation
compares each of its modes with the classic runs of its own rounds. The definitions are those of docs/trace-format.md,
to the letter: somebody with a Parquet reader and a pencil gets the same numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from typing import Any, Final

import attrs

from spark_analysis.cells import Cell, Load, Run, enough_samples, number, order, rate
from spark_analysis.effects import Effect, factor_effects
from spark_analysis.figures import Audit, Figures
from spark_analysis.interval import Ratio, ratio_interval
from spark_analysis.queries import CURVE
from spark_analysis.tables import ABLATION_MODES, SUMMARY_SCHEMA

PERCENTILES: Final = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
_CLASSIC: Final = "classic"


@attrs.frozen
class CellFigures:
    """What is said of one cell."""

    cell: Cell
    requests: int
    errors: int
    requests_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    order_violations: int
    client_cpu_share: float | None

    def as_json(self) -> dict[str, Any]:
        """The object of this cell in `summary.json`."""
        return {
            "mode": self.cell.mode,
            "client": self.cell.load.client,
            "in_flight": self.cell.load.in_flight,
            "connections": self.cell.load.connections,
            "commit_delay_ms": number(self.cell.load.commit_delay_ms),
            **_variant(self.cell.load),
            "requests": self.requests,
            "requests_per_s": _rounded(self.requests_per_s),
            **{name: _rounded(getattr(self, name)) for name in PERCENTILES},
            "order_violations": self.order_violations,
        }


@attrs.define(slots=False)
class Comparison:
    """Everything that the report says, computed once from the figures."""

    figures: Figures

    @cached_property
    def sides(self) -> tuple[str, str]:
        """The modes of side 0 and side 1 (equal where a mode is compared with itself)."""
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for run in self.figures.runs:
            if not run.ablation and run.side in (0, 1):
                counts[run.side][run.cell.mode] += 1
        names = [count.most_common(1)[0][0] if count else "" for count in counts]
        return names[0] or names[1], names[1] or names[0]

    @cached_property
    def others(self) -> list[str]:
        """The brokers that were driven beside the two sides, such as Apache Kafka: the modes of the sides from 2 on."""
        sides = {(run.side, run.cell.mode) for run in self.figures.runs if not run.ablation}
        return [mode for side, mode in sorted(sides) if side > 1]

    @cached_property
    def cells(self) -> dict[Cell, CellFigures]:
        """Every cell in reading order, those of the ablation's own modes included."""
        runs: dict[Cell, list[Run]] = {}
        for run in self.figures.runs:
            runs.setdefault(run.cell, []).append(run)
        places = {mode: place for place, mode in enumerate((*self.sides, *self.others, *ABLATION_MODES))}
        ordered = sorted(runs, key=lambda cell: (*order(cell.load), places.get(cell.mode, len(places)), cell.mode))
        return {cell: self._cell(cell, runs[cell]) for cell in ordered}

    def _cell(self, cell: Cell, runs: list[Run]) -> CellFigures:
        untraced = [run for run in runs if not run.traced]
        numbers = {run.number for run in runs}
        curve = self.figures.curves.get(cell)
        shares = [run.client_cpu_share for run in untraced if run.client_cpu_share is not None]
        percentiles: dict[str, float | None] = dict.fromkeys(PERCENTILES)
        if curve is not None:
            percentiles = {
                name: curve.values_us[CURVE.index(quantile)] / 1000 if enough_samples(curve.samples, quantile) else None
                for name, quantile in PERCENTILES.items()
            }
        return CellFigures(
            cell=cell,
            requests=sum(run.requests for run in untraced),
            errors=sum(run.errors for run in untraced),
            requests_per_s=rate(untraced),
            order_violations=sum(audit.violations for audit in self.figures.audits if audit.run in numbers),
            client_cpu_share=max(shares, default=None),
            **percentiles,
        )

    @cached_property
    def speedups(self) -> dict[Load, Ratio]:
        """Side 1 over side 0 per load, over the rounds that both sides have."""
        return self._ratios(0)

    @cached_property
    def over_others(self) -> dict[str, dict[Load, Ratio]]:
        """Side 1 over each of the other brokers per load, in the same way."""
        sides = {run.cell.mode: run.side for run in self.figures.runs if not run.ablation and run.side > 1}
        return {mode: self._ratios(sides[mode]) for mode in self.others}

    def _ratios(self, base: int) -> dict[Load, Ratio]:
        found: dict[Load, dict[int, tuple[list[Run], list[Run]]]] = {}
        for run in self.figures.runs:
            if run.compared and run.side in (base, 1):
                rounds = found.setdefault(run.cell.load, {})
                rounds.setdefault(run.round, ([], []))[0 if run.side == base else 1].append(run)
        ratios = {load: _paired(found[load].values()) for load in sorted(found, key=order)}
        return {load: ratio for load, ratio in ratios.items() if ratio is not None}

    @cached_property
    def ablation(self) -> dict[Cell, Ratio | None]:
        """Each ablation cell and its ratio over classic; of other modes in the ablation's rounds too.

        Without classic runs of its own, the ablation is paired with the classic runs of the comparison.
        """
        runs = [run for run in self.figures.runs if not run.traced and run.ablation]
        loads = {run.cell.load for run in runs if run.cell.mode in ABLATION_MODES}
        own = [run for run in runs if run.cell.mode == _CLASSIC]
        base = own or [run for run in self.figures.runs if run.compared and run.cell.mode == _CLASSIC]
        found: dict[Cell, Ratio | None] = {}
        for cell in self.cells:
            if cell.load not in loads or cell.mode == _CLASSIC:
                continue
            mine = [run for run in runs if run.cell == cell]
            if mine:
                found[cell] = _paired(_rounds([run for run in base if run.cell.load == cell.load], mine))
        return found

    @cached_property
    def effects(self) -> list[Effect]:
        """What each level of each factor does, the most important factor first; none without every combination."""
        return factor_effects(self.figures.runs)

    @cached_property
    def tracing_cost(self) -> dict[str, Ratio]:
        """Traced over untraced rate per mode, each load one sample (the raw client's, closed loop)."""
        ratios: dict[str, list[float]] = {}
        for cell in self.cells:
            runs = [run for run in self.figures.runs if run.cell == cell and not cell.load.open_loop]
            traced, untraced = (rate([run for run in runs if run.traced is wanted]) for wanted in (True, False))
            if traced and untraced:
                ratios.setdefault(cell.mode, []).append(traced / untraced)
        found = {mode: ratio_interval(samples) for mode, samples in ratios.items()}
        return {mode: ratio for mode, ratio in found.items() if ratio is not None}

    def audit_totals(self, audit: str) -> Audit:
        """One audit over all runs."""
        parts = [part for part in self.figures.audits if part.audit == audit]
        return Audit(
            run=-1,
            audit=audit,
            audited=sum(part.audited for part in parts),
            violations=sum(part.violations for part in parts),
            complete=all(part.complete for part in parts),
        )

    @property
    def machine(self) -> dict[str, Any]:
        """What the runs say of the machine (the first that says something)."""
        return next((run.machine for run in self.figures.runs if run.machine), {})

    def as_json(self, verdict: str) -> dict[str, Any]:
        """The object of `summary.json`."""
        return {
            "schema": SUMMARY_SCHEMA,
            "machine": self.machine,
            "cells": [cell.as_json() for key, cell in self.cells.items() if key.mode not in ABLATION_MODES],
            "ablation": [cell.as_json() for key, cell in self.cells.items() if key.mode in ABLATION_MODES],
            "speedups": [_speedup_json(load, ratio) for load, ratio in self.speedups.items()],
            **({"over_others": self._over_others_json()} if self.others else {}),
            **({"over_classic": self._over_classic_json()} if self.ablation else {}),
            **({"factors": [_effect_json(effect) for effect in self.effects]} if self.effects else {}),
            "verdict": verdict,
        }

    def _over_others_json(self) -> list[dict[str, Any]]:
        return [
            {"mode": mode, **_speedup_json(load, ratio)}
            for mode, ratios in self.over_others.items()
            for load, ratio in ratios.items()
        ]

    def _over_classic_json(self) -> list[dict[str, Any]]:
        return [
            {"mode": cell.mode, **_speedup_json(cell.load, ratio)}
            for cell, ratio in self.ablation.items()
            if ratio is not None
        ]


def _rounds(zeros: list[Run], ones: list[Run]) -> list[tuple[list[Run], list[Run]]]:
    by_round: dict[int, tuple[list[Run], list[Run]]] = {}
    for side, runs in enumerate((zeros, ones)):
        for run in runs:
            by_round.setdefault(run.round, ([], []))[side].append(run)
    return list(by_round.values())


def _paired(rounds: Any) -> Ratio | None:
    ratios = []
    for zeros, ones in rounds:
        zero, one = rate(zeros), rate(ones)
        if zero and one:
            ratios.append(one / zero)
    return ratio_interval(ratios)


def _speedup_json(load: Load, ratio: Ratio) -> dict[str, Any]:
    return {
        "in_flight": load.in_flight,
        "connections": load.connections,
        "commit_delay_ms": number(load.commit_delay_ms),
        "client": load.client,
        **_variant(load),
        **_ratio_json(ratio, "speedup"),
        "rounds": ratio.rounds,
    }


def _effect_json(effect: Effect) -> dict[str, Any]:
    over = {f"over_first_{side}": _ratio_json(ratio, "ratio") for side, ratio in enumerate(effect.over_first or ())}
    return {
        "factor": effect.factor,
        "level": effect.level,
        "loads": effect.loads,
        **_ratio_json(effect.speedup, "speedup"),
        "rounds": effect.speedup.rounds,
        **over,
    }


def _ratio_json(ratio: Ratio, name: str) -> dict[str, Any]:
    return {name: _rounded(ratio.value), "low": _rounded(ratio.low), "high": _rounded(ratio.high)}


def _variant(load: Load) -> dict[str, str]:
    """What a sweep varies besides; ordinary loads do not have the name."""
    return {"variant": load.variant} if load.variant else {}


def _rounded(value: float | None) -> float | None:
    """Nine significant digits: exact for every purpose, without the noise of binary fractions."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.9g}")
