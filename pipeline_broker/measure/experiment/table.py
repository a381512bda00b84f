"""The tables that `compare` prints: closed loops and the ablation, with the legends of all tables."""

from collections.abc import Iterator

from pipeline_broker.measure.experiment.equal_load import EQUAL_LOAD_LEGEND, equal_load_table
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runs import Cell
from pipeline_broker.measure.experiment.words import aligned, figures_of, load_of, ratio_text

_COLUMNS = ("client", "load", "delay", "side", "requests/s", "p50 ms", "p99 ms", "speed-up (95 % interval)")
_NAMES = 4  # columns with names
LEGEND = """\
raw: the native load client; 4 x 64 are 4 connections with 64 requests in flight each
confluent-kafka: the unit is messages, not requests
self: a mode compared with itself; the true ratio is 1
-: too few samples for this percentile
A closed loop sends a request after each answer, so its latency depends on the number of requests in flight."""
ABLATION_LEGEND = """\
ablation: each axis alone, compared with classic in the same rounds
mute-off: 64 requests in flight
group-commit: one commit for all waiting requests
own-queues: a queue for each handler
both: mute-off and group-commit
Queues isolate connections: a stalled queue delays only its own connections. They save no processor time. On one event
loop, own-queues can reach 1x at most. It reaches less if connections of one queue wait for each other's commits."""


def report_text(results: Results) -> str:
    parts = [table(results), LEGEND, *([ABLATION_LEGEND] if results.ablated else [])]
    if equal_load := equal_load_table(results):
        parts += [equal_load, EQUAL_LOAD_LEGEND]
    parts.append(f"Answers out of order: {results.order_violations}.")
    return "\n\n".join(parts)


def table(results: Results) -> str:
    """Return the table of the closed loops, with a line for each side of a cell, and of the ablation."""
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
