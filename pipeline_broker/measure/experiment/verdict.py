"""What the client's figures say: cells, speed-ups, a table and a sentence.

Rules of this file: figures of untraced runs only (order violations of all runs); speed-ups over paired rounds; a gain
or a loss is claimed only where the interval does not contain 1; ordinary clients come first in words, because theirs is
what a reader will get.
"""

import array
import math
from collections.abc import Iterable, Sequence

import attrs

from pipeline_broker.measure.experiment.intervals import Speedup, speedup
from pipeline_broker.measure.experiment.modes import AXIS_MODES, COMPARED_MODES
from pipeline_broker.measure.experiment.plan import ABLATION_EXPERIMENT, RAW, REPLAY, Cell, Run
from pipeline_broker.measure.load.statistics import RunFigures, figures, percentile_ms
from pipeline_broker.traces.client_rows import ClientRow

NANOSECONDS = "q"
_RATIO_SHOWN_MAX = 1000
_COLUMNS = ("client", "load", "delay", "side", "requests/s", "p50 ms", "p99 ms", "speed-up (95 % interval)")
LEGEND = """\
raw: the native load client, 4 x 64 means 4 connections with 64 requests in flight each; confluent-kafka: messages, not
requests; replay: real events at their own pace, so it has no speed-up; -: too few samples for this percentile"""
"""What a reader of the table cannot guess."""
ABLATION_LEGEND = """\
ablation, in brackets over classic in the same rounds: mute-off is 64 requests in flight, group-commit one commit for
all that waits, own-queues a queue for each handler, both the first two; queues buy isolation, a queue that stands
still delays its own connections only, and no processor time: on one event loop 1x is the most that they should show,
and less where connections of one queue wait for each other's commits"""
_ABLATION_ORDER = (COMPARED_MODES[0], *AXIS_MODES, COMPARED_MODES[1])


@attrs.frozen(slots=True)
class RunRate:
    """What is kept of one untraced run."""

    round: int
    requests: int
    seconds: float


@attrs.define
class CellTotals:
    """All runs of one cell on one side.

    Attributes:
        rates: of the rounds that are paired with those of the other sides.
        others: of runs that are paired with something else.
    """

    rates: list[RunRate] = attrs.field(factory=list)
    others: list[RunRate] = attrs.field(factory=list)
    latencies_ns: "array.array[int]" = attrs.field(factory=lambda: array.array(NANOSECONDS))

    @property
    def requests_per_s(self) -> float:
        """Measured requests over the sum of the runs' times."""
        rates = [*self.rates, *self.others]
        seconds = sum(rate.seconds for rate in rates)
        return sum(rate.requests for rate in rates) / seconds if seconds else 0.0

    def take(self, found: RunFigures, run: Run, *, is_paired: bool) -> None:
        """Take in the figures of one run; of a traced one nothing counts here."""
        if not run.traced:
            rates = self.rates if is_paired else self.others
            rates.append(RunRate(run.round, found.requests, found.seconds))
            self.latencies_ns.extend(found.latencies_ns)

    def percentile_ms(self, quantile: float) -> float | None:
        """A quantile of all latencies; None when there are too few."""
        return percentile_ms(sorted(self.latencies_ns), quantile)


@attrs.define
class Results:
    """The figures of an experiment, gathered run by run."""

    modes: tuple[str, str]
    others: tuple[str, ...] = ()
    cells: dict[tuple[Cell, str, int], CellTotals] = attrs.field(factory=dict)
    ablated: dict[tuple[Cell, str], CellTotals] = attrs.field(factory=dict)
    order_violations: int = 0
    """Answers out of order, over all runs."""

    def expect(self, cells: Iterable[Cell]) -> None:
        """Tell cells in this order, in whichever they are run."""
        for cell in cells:
            for number, mode in enumerate(self.modes):
                self.cells.setdefault((cell, mode, number), CellTotals())

    def add(self, run: Run, rows: Sequence[ClientRow]) -> None:
        """Take in the rows of one run."""
        found = figures(rows)
        self.order_violations += found.order_violations
        is_ablation = run.experiment == ABLATION_EXPERIMENT
        if is_ablation:
            self.ablated.setdefault((run.cell, run.side.mode), CellTotals()).take(found, run, is_paired=True)
        if not is_ablation or run.side.mode in self.modes:
            key = (run.cell, run.side.mode, run.side.number)
            self.cells.setdefault(key, CellTotals()).take(found, run, is_paired=not is_ablation)

    def compared(self) -> list[Cell]:
        """The cells that both sides have, in order of their first run."""
        sides = {(mode, number) for number, mode in enumerate(self.modes)}
        cells = dict.fromkeys(cell for cell, mode, number in self.cells if (mode, number) in sides)
        return [cell for cell in cells if all((cell, mode, number) in self.cells for mode, number in sides)]

    def side(self, cell: Cell, number: int) -> CellTotals:
        """One side of a compared cell."""
        return self.cells[cell, self.modes[number], number]

    def speedup(self, cell: Cell) -> Speedup | None:
        """B over A; None for an open loop, whose rate is given."""
        return self._ratio(self.side(cell, 0), self.side(cell, 1), cell)

    def over_other(self, cell: Cell, mode: str) -> Speedup | None:
        """B over a broker that is not ours; None where that was not driven."""
        other = self.other(cell, mode)
        return None if other is None else self._ratio(other, self.side(cell, 1), cell)

    def other(self, cell: Cell, mode: str) -> CellTotals | None:
        """What a broker that is not ours has reached under a load."""
        return self.cells.get((cell, mode, len(self.modes) + self.others.index(mode)))

    def _ratio(self, base: CellTotals, compared: CellTotals, cell: Cell) -> Speedup | None:
        return None if cell.client == REPLAY else _paired(base, compared)

    def ablation(self) -> list[tuple[Cell, str, CellTotals, Speedup | None]]:
        """The cells of the ablation by load, each with its ratio over classic.

        Classic is that of the ablation's own rounds, or else that of the comparison.
        """
        classic = COMPARED_MODES[0]
        found = []
        for cell in dict.fromkeys(cell for cell, _ in self.ablated):
            number = self.modes.index(classic) if classic in self.modes else 0
            base = self.ablated.get((cell, classic)) or self.cells.get((cell, classic, number))
            for mode in _ABLATION_ORDER:
                totals = self.ablated.get((cell, mode))
                if totals is not None:
                    over = None if base is None or mode == classic else _paired(base, totals)
                    found.append((cell, mode, totals, over))
        return found


def _paired(base: CellTotals, compared: CellTotals) -> Speedup | None:
    """The second over the first, over the rounds that both have."""
    rates = [
        {rate.round: rate.requests / rate.seconds for rate in totals.rates if rate.seconds}
        for totals in (base, compared)
    ]
    return speedup([(rates[0][number], rates[1][number]) for number in rates[0] if number in rates[1]])


def report_text(results: Results) -> str:
    """The table and what a reader of it cannot guess."""
    parts = [table(results), LEGEND, *([ABLATION_LEGEND] if results.ablated else [])]
    return "\n\n".join(parts)


def table(results: Results) -> str:
    """The plain table: two lines a cell, one per side."""
    lines: list[tuple[str, ...]] = [_COLUMNS]
    for cell in results.compared():
        gain = results.speedup(cell)
        for number, mode in enumerate(results.modes):
            name = (cell.client, _load(cell), f"{cell.commit_delay_ms:g} ms") if number == 0 else ("", "", "")
            lines.append((*name, mode, *_figures(results.side(cell, number)), _gain(gain) if number else ""))
        for mode in results.others:
            other = results.other(cell, mode)
            if other is not None:
                over = _gain(results.over_other(cell, mode))
                lines.append(("", "", "", mode, *_figures(other), f"{results.modes[1]} over it {over}"))
    named: Cell | None = None
    for cell, mode, totals, gain in results.ablation():
        name = ("", "", "") if cell == named else ("ablation", _load(cell), f"{cell.commit_delay_ms:g} ms")
        named = cell
        lines.append((*name, mode, *_figures(totals), f"over classic {_gain(gain)}" if gain else ""))
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    return "\n".join(_aligned(line, widths) for line in lines)


def _aligned(line: tuple[str, ...], widths: Sequence[int]) -> str:
    left = 4  # names to the left, numbers to the right
    cells = [
        text.ljust(width) if column < left else text.rjust(width)
        for column, (text, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _load(cell: Cell) -> str:
    if cell.client == RAW:
        return f"{cell.connections} x {cell.in_flight}{f' {cell.variant}' if cell.variant else ''}"
    if cell.client == REPLAY:
        return f"{cell.connections} connections, open loop"
    return f"{cell.connections} producer{'s' if cell.connections > 1 else ''}"


def _figures(totals: CellTotals) -> tuple[str, str, str]:
    percentiles = (totals.percentile_ms(0.5), totals.percentile_ms(0.99))
    p50, p99 = ("-" if value is None else f"{value:,.2f}" for value in percentiles)
    return f"{totals.requests_per_s:,.0f}", p50, p99


def _gain(gain: Speedup | None) -> str:
    if gain is None:
        return ""
    if gain.low is None or gain.high is None:
        return f"{_ratio(gain.ratio)}x"
    return f"{_ratio(gain.ratio)}x ({_ratio(gain.low)} to {_ratio(gain.high)})"


def _ratio(value: float) -> str:
    """Three digits; two rounds that differ have an interval of which more would be noise."""
    if value > _RATIO_SHOWN_MAX:
        return f"> {_RATIO_SHOWN_MAX}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def sentence(results: Results) -> str:
    """The verdict in words."""
    first, second = results.modes
    if first == second:
        return f"{_noise(results)} Answers out of order: {results.order_violations}."
    found = [(cell, gain) for cell in results.compared() if (gain := results.speedup(cell)) is not None]
    ordinary = [(cell, gain) for cell, gain in found if cell.client != RAW]
    raw = [(cell, gain) for cell, gain in found if cell.client == RAW]
    parts = []
    if ordinary:
        parts.append(_claim(f"An ordinary client (confluent-kafka) on {second} instead of {first}", ordinary))
    if raw:
        parts.append(_claim(f"The native client on {second} instead of {first}", raw))
    for mode in results.others:
        over = [(cell, gain) for cell, _ in found if (gain := results.over_other(cell, mode)) is not None]
        if over:
            parts.append(_claim(f"{second.capitalize()} instead of {mode}", over))
    parts += _ablation_sentence(results)
    parts.append(f"Answers out of order: {results.order_violations}.")
    return " ".join(parts)


def _noise(results: Results) -> str:
    """What a mode compared with itself says: how far the method can be trusted on this machine, at this time."""
    mode = results.modes[0]
    gains = [(cell, gain) for cell in results.compared() if (gain := results.speedup(cell)) is not None]
    with_interval = [(cell, gain) for cell, gain in gains if gain.low is not None and gain.high is not None]
    if not with_interval:
        return f"{mode.capitalize()} was compared with itself, in one round only: nothing can be said of the noise."
    holding = sum(not gain.is_gain and not gain.is_loss for _, gain in with_interval)
    cell, widest = max(with_interval, key=lambda pair: abs(math.log(pair[1].ratio)))
    return (
        f"{mode.capitalize()} was compared with itself, so every true ratio is 1 and what differs is noise: "
        f"{holding} of {len(with_interval)} intervals hold 1 (19 of 20 should), the ratio farthest from it is "
        f"{_named(cell, widest)}."
    )


def _ablation_sentence(results: Results) -> list[str]:
    """What each axis buys, under the first load of the ablation."""
    found = [(cell, mode, over) for cell, mode, _, over in results.ablation() if over is not None]
    if not found:
        return []
    first = found[0][0]
    axes = [f"{mode} {_gain(over)}" for cell, mode, over in found if cell == first]
    return [f"The axes, each over classic at {_load(first)}: {', '.join(axes)}."]


def _claim(subject: str, found: Iterable[tuple[Cell, Speedup]]) -> str:
    found = list(found)
    gains = [pair for pair in found if pair[1].is_gain]
    losses = [pair for pair in found if pair[1].is_loss]
    even = len(found) - len(gains) - len(losses)
    if even == len(found):
        return f"{subject}: no difference beyond chance in any of {even} cells."
    words = []
    if gains:
        best = max(gains, key=lambda pair: pair[1].ratio)
        words.append(f"is faster in {len(gains)} of {len(found)} cells, most at {_named(*best)}")
    if losses:
        worst = min(losses, key=lambda pair: pair[1].ratio)
        words.append(f"is slower in {len(losses)} of {len(found)}, most at {_named(*worst)}")
    if even:
        words.append(f"shows no difference beyond chance in {even}")
    return f"{subject}: {'; '.join(words)}."


def _named(cell: Cell, gain: Speedup) -> str:
    linger = "" if cell.linger_ms is None else f", linger {cell.linger_ms} ms"
    delay = f", commit delay {cell.commit_delay_ms:g} ms" if cell.commit_delay_ms else ""
    return f"{_load(cell)}{linger}{delay} ({_gain(gain)})"
