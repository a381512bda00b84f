"""The table of open loops: latency of all sides under the same load.

No figures are shown for a side that did not keep the pace. Its latency grows as long as the run lasts, and its few
measured requests come from the end of a long queue.
"""

from pipeline_broker.measure.experiment.results import CellTotals, Results
from pipeline_broker.measure.experiment.runs import Cell
from pipeline_broker.measure.experiment.words import aligned, figures_of, load_of, ratio_text

_COLUMNS = ("client", "load", "due/s", "side", "answered/s", "p50 ms", "p99 ms", "{} ratio at p50", "at p99")
_NAMES = 4
EQUAL_LOAD_LEGEND = """\
equal load, an open loop: requests are due at fixed times, the same for all sides, and latency counts from the due time,
so a stall delays all requests that became due during it; replay: recorded events at their own pace; ratio: latency over
that of the first side, paired by round, with its 95 % interval, below 1x is better; behind: answers arrived at less
than 98 % of the pace, so rate and latency would only show the length of the run"""
BEHIND = "behind"


def open_cells(results: Results) -> list[Cell]:
    cells = [cell for cell in results.compared() if cell.is_open]
    return sorted(cells, key=lambda it: (it.client, it.connections, it.in_flight, results.side(it, 0).due_per_s))


def equal_load_table(results: Results) -> str:
    """Return the table with one line per side; empty without open loops."""
    first, second = results.modes
    header = tuple(name.format(second) for name in _COLUMNS)
    lines = [header]
    for cell in open_cells(results):
        name = (cell.client, load_of(cell), f"{results.side(cell, 0).due_per_s:,.0f}")
        sides = [(first, results.side(cell, 0)), (second, results.side(cell, 1))]
        sides += [(mode, other) for mode in results.others if (other := results.other(cell, mode)) is not None]
        for number, (mode, totals) in enumerate(sides):
            waits = [ratio_text(results.wait(cell, quantile)) if number == 1 else "" for quantile in (0.5, 0.99)]
            lines.append((*(name if number == 0 else ("", "", "")), mode, *_figures(totals), *waits))
    return aligned(lines, _NAMES) if len(lines) > 1 else ""


def _figures(totals: CellTotals) -> tuple[str, str, str]:
    return figures_of(totals) if totals.kept_pace else (BEHIND, BEHIND, BEHIND)
