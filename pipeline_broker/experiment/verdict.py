"""What the client's figures say: cells, speed-ups, a table and a sentence.

Rules of this file: figures of untraced runs only (order violations of all runs); speed-ups over paired rounds; a gain
or a loss is claimed only where the interval does not contain 1; ordinary clients come first in words, because theirs is
what a reader will get.
"""

import array
from collections.abc import Iterable, Sequence

import attrs

from pipeline_broker.experiment.intervals import Speedup, speedup
from pipeline_broker.experiment.plan import RAW, REPLAY, Cell, Run
from pipeline_broker.load.ring import ClientRow
from pipeline_broker.load.statistics import figures, percentile_ms

NANOSECONDS = "q"
_RATIO_SHOWN_MAX = 1000
_COLUMNS = ("client", "load", "delay", "side", "requests/s", "p50 ms", "p99 ms", "speed-up (95 % interval)")
LEGEND = """\
raw: the native load client, 4 x 64 means 4 connections with 64 requests in flight each; confluent-kafka: messages, not
requests; replay: real events at their own pace, so it has no speed-up; -: too few samples for this percentile"""
"""What a reader of the table cannot guess."""


@attrs.frozen(slots=True)
class RunRate:
    """What is kept of one untraced run."""

    round: int
    requests: int
    seconds: float


@attrs.define
class CellTotals:
    """All runs of one cell on one side."""

    rates: list[RunRate] = attrs.field(factory=list)
    latencies_ns: "array.array[int]" = attrs.field(factory=lambda: array.array(NANOSECONDS))
    order_violations: int = 0

    @property
    def requests_per_s(self) -> float:
        """Measured requests over the sum of the runs' times."""
        seconds = sum(rate.seconds for rate in self.rates)
        return sum(rate.requests for rate in self.rates) / seconds if seconds else 0.0

    def percentile_ms(self, quantile: float) -> float | None:
        """A quantile of all latencies; None when there are too few."""
        return percentile_ms(sorted(self.latencies_ns), quantile)


@attrs.define
class Results:
    """The figures of an experiment, gathered run by run."""

    modes: tuple[str, str]
    others: tuple[str, ...] = ()
    cells: dict[tuple[Cell, str, int], CellTotals] = attrs.field(factory=dict)

    def add(self, run: Run, rows: Sequence[ClientRow]) -> None:
        """Take in the rows of one run."""
        found = figures(rows)
        totals = self.cells.setdefault((run.cell, run.side.mode, run.side.number), CellTotals())
        totals.order_violations += found.order_violations
        if not run.traced:
            totals.rates.append(RunRate(run.round, found.requests, found.seconds))
            totals.latencies_ns.extend(found.latencies_ns)

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
        if cell.client == REPLAY:
            return None
        rates = [
            {rate.round: rate.requests / rate.seconds for rate in totals.rates if rate.seconds}
            for totals in (base, compared)
        ]
        return speedup([(rates[0][number], rates[1][number]) for number in rates[0] if number in rates[1]])

    def ablation(self) -> list[tuple[Cell, str, CellTotals]]:
        """The cells of other modes than the compared ones."""
        shown = {*self.modes, *self.others}
        return [(cell, mode, totals) for (cell, mode, _), totals in self.cells.items() if mode not in shown]

    @property
    def order_violations(self) -> int:
        """Answers out of order, over all runs."""
        return sum(totals.order_violations for totals in self.cells.values())


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
    for place, (cell, mode, totals) in enumerate(results.ablation()):
        name = ("ablation", _load(cell), f"{cell.commit_delay_ms:g} ms") if place == 0 else ("", "", "")
        lines.append((*name, mode, *_figures(totals), ""))
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
        return f"{cell.connections} x {cell.in_flight}"
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
    violations = results.order_violations
    parts.append(f"Answers out of order: {violations}.")
    return " ".join(parts)


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
