"""Text of loads, figures and ratios in the tables of an experiment."""

from collections.abc import Sequence

from pipeline_broker.measure.experiment.intervals import Speedup
from pipeline_broker.measure.experiment.results import CellTotals
from pipeline_broker.measure.experiment.runs import COMMAND, PAIRS, RAW, READER, REPLAY, Cell

_RATIO_SHOWN_MAX = 1000


def load_of(cell: Cell) -> str:
    if cell.client in (RAW, READER):
        return f"{cell.connections} x {cell.in_flight}{f' {cell.variant}' if cell.variant else ''}"
    if cell.client == REPLAY:
        return f"{cell.connections} connections"
    noun = {PAIRS: "pair", COMMAND: "run"}.get(cell.client, "producer")
    return f"{cell.connections} {noun}{'s' if cell.connections > 1 else ''}"


def figures_of(totals: CellTotals) -> tuple[str, str, str]:
    percentiles = (totals.percentile_ms(0.5), totals.percentile_ms(0.99))
    p50, p99 = ("-" if value is None else f"{value:,.2f}" for value in percentiles)
    return f"{totals.requests_per_s:,.0f}", p50, p99


def ratio_text(ratio: Speedup | None) -> str:
    if ratio is None:
        return ""
    if ratio.low is None or ratio.high is None:
        return f"{_ratio(ratio.ratio)}x"
    return f"{_ratio(ratio.ratio)}x ({_ratio(ratio.low)} to {_ratio(ratio.high)})"


def _ratio(value: float) -> str:
    if value > _RATIO_SHOWN_MAX:
        return f"> {_RATIO_SHOWN_MAX}"
    # Three digits: intervals are so wide that more would be noise.
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def aligned(lines: Sequence[tuple[str, ...]], left: int) -> str:
    """Align lines as a table: the first `left` columns to the left, the others to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column < left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
