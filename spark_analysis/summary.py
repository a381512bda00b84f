"""The comparison, computed from the figures: speed-ups, latency at equal load, ablation, the cost of tracing.

A speed-up compares side 1 with side 0 of the same round and load. The ablation compares each of its modes with the
classic runs of its own rounds. The definitions are those of docs/reference/trace-format.md, so that a reader of the
Parquet files gets the same numbers.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, Final

import attrs

from spark_analysis.breakdown import Breakdown, Cause, breakdowns, cause
from spark_analysis.cells import PERCENTILES, Cell, Load, Run, enough_samples, order, rate
from spark_analysis.costs import Prices, StoreCost, store_costs
from spark_analysis.effects import Effect, factor_effects
from spark_analysis.figures import Audit, Figures
from spark_analysis.interval import Ratio, ratio_interval
from spark_analysis.multiplicity import corrected
from spark_analysis.noise import Noise, compared_with_itself
from spark_analysis.offered import EqualLoad, equal_loads
from spark_analysis.pairs import paired, percentile, ratios, rounds_of
from spark_analysis.queries import CURVE
from spark_analysis.tables import ABLATION_MODES

_CLASSIC: Final = "classic"
# `Comparison._cell` looks the compared percentiles up in the latency curve.
assert set(PERCENTILES.values()) <= set(CURVE)


@attrs.frozen
class RoundFigures:
    round: int
    side: int
    requests_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    p999_ms: float | None


@attrs.frozen
class CellFigures:
    """The figures of one cell, over all its untraced runs; `order_violations` counts traced runs too.

    A percentile is None if too few samples lie beyond it, or if the cell did not keep its pace.
    """

    cell: Cell
    requests: int
    errors: int
    requests_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    order_violations: int
    client_cpu_share: float | None
    rounds: tuple[RoundFigures, ...]


@attrs.define(slots=False)
class Comparison:
    """Every number of the report, computed once from the figures."""

    figures: Figures
    prices: Prices = attrs.field(factory=Prices)

    @cached_property
    def store_costs(self) -> dict[Cell, StoreCost]:
        counted = [run for run in self.figures.runs if not run.of_itself]
        return store_costs(counted, self.figures.store, self.prices)

    @cached_property
    def sides(self) -> tuple[str, str]:
        """The modes of side 0 and side 1; equal if a mode is compared with itself."""
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for run in self.figures.runs:
            if run.of_a_side and run.side in (0, 1):
                counts[run.side][run.cell.mode] += 1
        names = [count.most_common(1)[0][0] if count else "" for count in counts]
        return names[0] or names[1], names[1] or names[0]

    @cached_property
    def others(self) -> list[str]:
        """The modes of the sides above 1: other brokers, such as Apache Kafka."""
        sides = {(run.side, run.cell.mode) for run in self.figures.runs if run.of_a_side}
        return [mode for side, mode in sorted(sides) if side > 1]

    @cached_property
    def cells(self) -> dict[Cell, CellFigures]:
        """Every cell in reading order, including the ablation's own modes, without A/A."""
        return self._cells([run for run in self.figures.runs if not run.of_itself])

    @cached_property
    def cells_of_noise(self) -> dict[Cell, CellFigures]:
        # A/A has cells of its own, because its runs would otherwise count twice for a mode.
        return self._cells([run for run in self.figures.runs if run.of_itself])

    def _cells(self, counted: list[Run]) -> dict[Cell, CellFigures]:
        runs: dict[Cell, list[Run]] = {}
        for run in counted:
            runs.setdefault(run.cell, []).append(run)
        places = {mode: place for place, mode in enumerate((*self.sides, *self.others, *ABLATION_MODES))}
        ordered = sorted(runs, key=lambda cell: (*order(cell.load), places.get(cell.mode, len(places)), cell.mode))
        return {cell: self._cell(cell, runs[cell]) for cell in ordered}

    def _cell(self, cell: Cell, runs: list[Run]) -> CellFigures:
        untraced = [run for run in runs if not run.traced]
        numbers = {run.number for run in runs}
        curve = self.figures.curves.get(cell)
        shares = [run.client_cpu_share for run in untraced if run.client_cpu_share is not None]
        percentiles: dict[str, float | None] = {f"{name}_ms": None for name in PERCENTILES}
        if curve is not None and cell not in self._unpaced:
            percentiles = {
                f"{name}_ms": curve.values_us[CURVE.index(quantile)] / 1000
                if enough_samples(curve.samples, quantile)
                else None
                for name, quantile in PERCENTILES.items()
            }
        return CellFigures(
            cell=cell,
            requests=sum(run.requests for run in untraced),
            errors=sum(run.errors for run in untraced),
            requests_per_s=rate(untraced),
            order_violations=sum(audit.violations for audit in self.figures.audits if audit.run in numbers),
            client_cpu_share=max(shares, default=None),
            rounds=tuple(_round(run, is_quoted=cell not in self._unpaced) for run in untraced),
            **percentiles,
        )

    @cached_property
    def _unpaced(self) -> set[Cell]:
        """The cells that did not keep the pace of their open loop, so their latency is not quoted."""
        return {Cell(side.mode, each.load) for each in self.equal_loads for side in each.sides if not side.kept_pace}

    @cached_property
    def speedups(self) -> dict[Load, Ratio]:
        """The rate of side 1 over that of side 0 per load, over the rounds that both sides have."""
        return ratios(self._compared, 0)

    @cached_property
    def latency_ratios(self) -> dict[str, dict[Load, Ratio]]:
        """The latency of side 1 over that of side 0 in a closed loop, by percentile and load; below 1 is shorter."""
        return {name: ratios(self._compared, 0, percentile(name)) for name in PERCENTILES}

    @cached_property
    def over_others(self) -> dict[str, dict[Load, Ratio]]:
        return {mode: ratios(self._compared, side) for mode, side in self._other_sides.items()}

    @cached_property
    def base_over_others(self) -> dict[str, dict[Load, Ratio]]:
        """The rate of side 0 over that of each other broker, per load: whether side 0 can stand for that broker."""
        return {mode: ratios(self._compared, side, side=0) for mode, side in self._other_sides.items()}

    @cached_property
    def latency_over_others(self) -> dict[str, dict[str, dict[Load, Ratio]]]:
        """The latency of side 1 over that of each other broker, by percentile and load."""
        return {
            mode: {name: ratios(self._compared, side, percentile(name)) for name in PERCENTILES}
            for mode, side in self._other_sides.items()
        }

    @property
    def _other_sides(self) -> dict[str, int]:
        sides = {run.cell.mode: run.side for run in self.figures.runs if run.of_a_side and run.side > 1}
        return {mode: sides[mode] for mode in self.others}

    @property
    def _compared(self) -> list[Run]:
        return [run for run in self.figures.runs if run.compared]

    @cached_property
    def equal_loads(self) -> list[EqualLoad]:
        return equal_loads(self.figures.runs)

    @cached_property
    def noise(self) -> Noise | None:
        """The A/A result; from all runs if both sides are the same mode. None if no round has both sides."""
        zero, one = self.sides
        own = [run for run in self.figures.runs if run.of_itself]
        runs = own or (self._compared if zero == one else [])
        return compared_with_itself(runs)

    @cached_property
    def breakdowns(self) -> dict[Cell, Breakdown]:
        return breakdowns(self.figures)

    def cause(self, load: Load) -> Cause | None:
        """Return the part of a request's time with most of the difference between the sides under a load.

        Returns None in the cases of `breakdown.cause`, if a side has no breakdown, or if both sides are the same mode.
        """
        zero, one = (self.breakdowns.get(Cell(mode, load)) for mode in self.sides)
        return cause(zero, one) if zero is not None and one is not None and zero is not one else None

    @cached_property
    def ablation(self) -> dict[Cell, Ratio | None]:
        """The rate of each ablation cell over classic. Other modes count too if they ran in the ablation's rounds.

        Without classic runs of its own, the ablation is paired with the classic runs of the comparison. The ratio is
        None if a cell shares no round with a classic run.
        """
        runs = [run for run in self.figures.runs if not run.traced and run.ablation]
        loads = {run.cell.load for run in runs if run.cell.mode in ABLATION_MODES}
        own = [run for run in runs if run.cell.mode == _CLASSIC]
        # The ablation's own classic runs come first: they ran in the same rounds.
        base = own or [run for run in self._compared if run.cell.mode == _CLASSIC]
        found: dict[Cell, Ratio | None] = {}
        for cell in self.cells:
            if cell.load not in loads or cell.mode == _CLASSIC:
                continue
            mine = [run for run in runs if run.cell == cell]
            if mine:
                zeros = [run for run in base if run.cell.load == cell.load]
                found[cell] = paired(rounds_of(zeros, mine).values())
        return {**found, **corrected({cell: ratio for cell, ratio in found.items() if ratio is not None})}

    @cached_property
    def effects(self) -> list[Effect]:
        return factor_effects(self.figures.runs)

    @cached_property
    def tracing_cost(self) -> dict[str, Ratio]:
        """The traced rate over the untraced rate by mode. Each closed-loop load is one sample."""
        ratios_of: dict[str, list[float]] = {}
        for cell in self.cells:
            runs = [run for run in self.figures.runs if run.cell == cell and not cell.load.open_loop]
            traced, untraced = (rate([run for run in runs if run.traced is wanted]) for wanted in (True, False))
            if traced and untraced:
                ratios_of.setdefault(cell.mode, []).append(traced / untraced)
        found = {mode: ratio_interval(samples) for mode, samples in ratios_of.items()}
        return {mode: ratio for mode, ratio in found.items() if ratio is not None}

    def audit_totals(self, audit: str) -> Audit:
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
        return next((run.machine for run in self.figures.runs if run.machine), {})


def _round(run: Run, *, is_quoted: bool) -> RoundFigures:
    percentiles = {
        f"{name}_ms": run.latency.milliseconds(name) if run.latency is not None and is_quoted else None
        for name in PERCENTILES
    }
    return RoundFigures(run.round, run.side, rate([run]), **percentiles)
