"""The figures that the clients measured, collected run by run, and the ratios of the sides.

A ratio is computed over paired rounds. Latencies have a ratio only if both sides kept the pace, because the latency of
a slower side grows until the run ends.
"""

import array
import statistics
from collections.abc import Callable, Iterable, Sequence

import attrs

from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.intervals import Speedup, speedup
from pipeline_broker.measure.experiment.modes import AXIS_MODES, COMPARED_MODES
from pipeline_broker.measure.experiment.runs import ABLATION_EXPERIMENT, Cell, Run
from pipeline_broker.measure.load.statistics import (
    SAMPLES_BEYOND_IN_RUN_MIN,
    RunFigures,
    figures,
    percentile_ms,
    percentile_ns,
)
from pipeline_broker.traces.client_rows import ClientRow

ANSWERED_SHARE_MIN = 0.98
"""A side kept the pace if answers arrived at this share of it or more, as in the report."""
_NANOSECONDS = "q"
_ABLATION_ORDER = (COMPARED_MODES[0], *AXIS_MODES, COMPARED_MODES[1])


@attrs.frozen(slots=True)
class RunTotals:
    """The totals of one untraced run.

    Attributes:
        requests, seconds: answered requests, and the time that they took.
        due, due_s: requests that an open loop had to send, and the time in which; 0 in a closed loop.
        answered_share: pace of answers as a share of the pace of requests.
        percentiles_ns: latencies by quantile; None with too few samples.
    """

    round: int
    requests: int
    seconds: float
    due: int
    due_s: float
    answered_share: float
    percentiles_ns: dict[float, float | None]

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0


@attrs.define
class CellTotals:
    """The totals of all runs of one cell on one side.

    Attributes:
        paired: runs of rounds that are paired with those of the other sides.
        others: other runs, such as those of the ablation.
        latencies_ns: latencies of all these runs.
    """

    paired: list[RunTotals] = attrs.field(factory=list)
    others: list[RunTotals] = attrs.field(factory=list)
    latencies_ns: "array.array[int]" = attrs.field(factory=lambda: array.array(_NANOSECONDS))

    @property
    def requests_per_s(self) -> float:
        return _per_s([*self.paired, *self.others])

    @property
    def due_per_s(self) -> float:
        """Requests per second that an open loop had to send; 0 in a closed loop."""
        seconds = sum(run.due_s for run in self.paired)
        return sum(run.due for run in self.paired) / seconds if seconds else 0.0

    @property
    def kept_pace(self) -> bool:
        """Return whether answers arrived at the pace of the requests; always True in a closed loop."""
        runs = [run for run in self.paired if run.due]
        if not runs:
            return True
        return statistics.fmean(run.answered_share for run in runs) >= ANSWERED_SHARE_MIN

    def take(self, found: RunFigures, run: Run, *, is_paired: bool) -> None:
        if not run.traced:
            runs = self.paired if is_paired else self.others
            quantiles = {
                quantile: percentile_ns(found.latencies_ns, quantile, SAMPLES_BEYOND_IN_RUN_MIN)
                for quantile in (0.5, 0.99)
            }
            due = found.requests + found.unanswered if found.due_s else 0
            totals = RunTotals(
                round=run.round,
                requests=found.requests,
                seconds=found.seconds,
                due=due,
                due_s=found.due_s,
                answered_share=found.answered_share,
                percentiles_ns=quantiles,
            )
            runs.append(totals)
            self.latencies_ns.extend(found.latencies_ns)

    def percentile_ms(self, quantile: float) -> float | None:
        return percentile_ms(sorted(self.latencies_ns), quantile)


def _per_s(runs: Iterable[RunTotals]) -> float:
    runs = list(runs)
    seconds = sum(run.seconds for run in runs)
    return sum(run.requests for run in runs) / seconds if seconds else 0.0


@attrs.define
class Results:
    """The figures of an experiment, collected run by run.

    Attributes:
        modes: modes of side A and side B.
        others: brokers of other projects.
        cells: totals by cell, mode and number of the side.
        ablated: totals of the ablation by cell and mode.
        order_violations: answers out of order, in all runs including traced ones.
    """

    modes: tuple[str, str]
    others: tuple[str, ...] = ()
    cells: dict[tuple[Cell, str, int], CellTotals] = attrs.field(factory=dict)
    ablated: dict[tuple[Cell, str], CellTotals] = attrs.field(factory=dict)
    order_violations: int = 0

    def expect(self, cells: Iterable[Cell]) -> None:
        """Set the order in which cells are listed, independent of the order of their runs."""
        for cell in cells:
            for number, mode in enumerate(self.modes):
                self.cells.setdefault((cell, mode, number), CellTotals())

    def add(self, run: Run, rows: Sequence[ClientRow]) -> None:
        found = figures(rows)
        self.order_violations += found.order_violations
        is_ablation = run.experiment == ABLATION_EXPERIMENT
        if is_ablation:
            self.ablated.setdefault((run.cell, run.side.mode), CellTotals()).take(found, run, is_paired=True)
        # Classic and pipelined runs of the ablation also count for the cell's figures. They are not paired, because
        # their rounds are others than those of the grid.
        if not is_ablation or run.side.mode in self.modes:
            key = (run.cell, run.side.mode, run.side.number)
            self.cells.setdefault(key, CellTotals()).take(found, run, is_paired=not is_ablation)

    def offered_per_s(self, cell: Cell) -> float | None:
        """Return the requests per second of an open loop; None for a closed loop and for the replay.

        Raises:
            ExperimentError: the rate is a share of a capacity that was not measured.
        """
        offer = cell.offer
        if offer is None:
            return None
        if offer.per_s is not None:
            return offer.per_s
        return round(offer.share * self.capacity(cell, offer.of), 1)

    def capacity(self, cell: Cell, mode: str) -> float:
        """Return the capacity of a mode: the median rate of its closed loop under this load, over paired runs.

        Raises:
            ExperimentError: no such run was measured.
        """
        # The median ignores a single disturbed run, which would set a wrong pace for all open loops.
        closed = attrs.evolve(cell, offer=None)
        rates = [
            run.requests_per_s
            for (found, name, _), totals in self.cells.items()
            if (found, name) == (closed, mode)
            for run in totals.paired
        ]
        if not rates:
            raise ExperimentError(
                f"the rate is a share of {mode}'s capacity with {cell.connections} x {cell.in_flight}, which was not "
                "measured: add the closed loop of this load"
            )
        return statistics.median(rates)

    def compared(self) -> list[Cell]:
        """Return the cells of both sides: those of `expect` in their order, then others in the order of their runs."""
        return self._with((self.modes[0], 0), (self.modes[1], 1))

    def selves(self) -> list[Cell]:
        found = self._with((self.modes[1], 0), (self.modes[1], 1))
        return [cell for cell in found if cell.is_self]

    def _with(self, *sides: tuple[str, int]) -> list[Cell]:
        cells = dict.fromkeys(cell for cell, mode, number in self.cells if (mode, number) in sides)
        return [cell for cell in cells if all((cell, mode, number) in self.cells for mode, number in sides)]

    def side(self, cell: Cell, number: int) -> CellTotals:
        return self.cells[cell, self.modes[1] if cell.is_self else self.modes[number], number]

    def other(self, cell: Cell, mode: str) -> CellTotals | None:
        """Return the totals of a broker of another project; None if it was not driven with this cell."""
        return self.cells.get((cell, mode, len(self.modes) + self.others.index(mode)))

    def speedup(self, cell: Cell) -> Speedup | None:
        """Return the rate of B over that of A; None for an open loop, whose rate is given, or without paired rounds."""
        return _faster(self.side(cell, 0), self.side(cell, 1), cell)

    def over_other(self, cell: Cell, mode: str) -> Speedup | None:
        """Return the rate of B over that of a broker of another project.

        Returns:
            None if the other broker was not driven with this cell, for an open loop, or without paired rounds.
        """
        other = self.other(cell, mode)
        return None if other is None else _faster(other, self.side(cell, 1), cell)

    def wait(self, cell: Cell, quantile: float) -> Speedup | None:
        """Return a quantile of the latency of B over that of A, over paired rounds.

        Returns:
            None if a side did not keep the pace, or no round has enough samples on both sides.
        """
        base, compared = self.side(cell, 0), self.side(cell, 1)
        if not (base.kept_pace and compared.kept_pace):
            return None
        return _paired(base, compared, lambda runs: _middle([run.percentiles_ns[quantile] or 0.0 for run in runs]))

    def ablation(self) -> list[tuple[Cell, str, CellTotals, Speedup | None]]:
        """Return the totals of the ablation, load by load: cell, mode, totals, and their ratio over classic.

        The ratio is None for classic itself, and without paired rounds. Classic runs of the ablation's own rounds are
        preferred to those of the comparison.
        """
        classic = COMPARED_MODES[0]
        found = []
        for cell in dict.fromkeys(cell for cell, _ in self.ablated):
            number = self.modes.index(classic) if classic in self.modes else 0
            base = self.ablated.get((cell, classic)) or self.cells.get((cell, classic, number))
            for mode in _ABLATION_ORDER:
                totals = self.ablated.get((cell, mode))
                if totals is not None:
                    over = None if base is None or mode == classic else _faster(base, totals, cell)
                    found.append((cell, mode, totals, over))
        return found


def _faster(base: CellTotals, compared: CellTotals, cell: Cell) -> Speedup | None:
    return None if cell.is_open else _paired(base, compared, _per_s)


def _middle(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if all(values) else 0.0


def _paired(base: CellTotals, compared: CellTotals, value: Callable[[Sequence[RunTotals]], float]) -> Speedup | None:
    """Return the second over the first, over the rounds in which both have values; 0 stands for none.

    The samples are those of the report ("Ratios" in docs/reference/trace-format.md).
    """
    values: list[dict[int, float]] = []
    for totals in (base, compared):
        by_round: dict[int, list[RunTotals]] = {}
        for run in totals.paired:
            by_round.setdefault(run.round, []).append(run)
        values.append({number: found for number, runs in by_round.items() if (found := value(runs))})
    return speedup([(values[0][number], values[1][number]) for number in values[0] if number in values[1]])
