"""What the client's figures say, as a table.

Rules of this file: nothing is claimed, because what holds for many loads at once is decided by the analysis; open loops
are told in `equal_load`.
"""

from collections.abc import Iterator

from pipeline_broker.measure.experiment.equal_load import EQUAL_LOAD_LEGEND, equal_load_table
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runs import Cell
from pipeline_broker.measure.experiment.words import aligned, figures_of, load_of, ratio_text

_COLUMNS = ("client", "load", "delay", "side", "requests/s", "p50 ms", "p99 ms", "speed-up (95 % interval)")
_NAMES = 4
"""So many columns are names."""
LEGEND = """\
raw: the native load client, 4 x 64 means 4 connections with 64 requests in flight each; confluent-kafka: messages, not
requests; self: a mode beside itself, whose true ratio is 1; -: too few samples for this percentile. A closed loop sends
when an answer has come, so its latencies say how much is in flight"""
"""What a reader of the table cannot guess."""
ABLATION_LEGEND = """\
ablation, in brackets over classic in the same rounds: mute-off is 64 requests in flight, group-commit one commit for
all that waits, own-queues a queue for each handler, both the first two; queues buy isolation, a queue that stands
still delays its own connections only, and no processor time: on one event loop 1x is the most that they should show,
and less where connections of one queue wait for each other's commits"""


def report_text(results: Results) -> str:
    """The tables and what a reader of them cannot guess."""
    parts = [table(results), LEGEND, *([ABLATION_LEGEND] if results.ablated else [])]
    if equal_load := equal_load_table(results):
        parts += [equal_load, EQUAL_LOAD_LEGEND]
    parts.append(f"Answers out of order: {results.order_violations}.")
    return "\n\n".join(parts)


def table(results: Results) -> str:
    """The closed loops: two lines a cell, one per side."""
    lines: list[tuple[str, ...]] = [_COLUMNS]
    for cell in [*results.compared(), *results.selves()]:
        if not cell.is_open:
            lines += _lines(results, cell)
    named: Cell | None = None
    for cell, mode, totals, gain in results.ablation():
        name = ("", "", "") if cell == named else ("ablation", load_of(cell), f"{cell.commit_delay_ms:g} ms")
        named = cell
        lines.append((*name, mode, *figures_of(totals), f"over classic {ratio_text(gain)}" if gain else ""))
    return aligned(lines, _NAMES)


def _lines(results: Results, cell: Cell) -> Iterator[tuple[str, ...]]:
    second = results.modes[1]
    gain = ratio_text(results.speedup(cell))
    for number, mode in enumerate((second, second) if cell.is_self else results.modes):
        name = (cell.client, load_of(cell), f"{cell.commit_delay_ms:g} ms") if number == 0 else ("", "", "")
        yield (*name, mode, *figures_of(results.side(cell, number)), gain if number else "")
    for mode in results.others:
        other = results.other(cell, mode)
        if other is not None:
            over = ratio_text(results.over_other(cell, mode))
            yield ("", "", "", mode, *figures_of(other), f"{second} over it {over}")
