"""What the client's figures say: a table and a verdict.

Rules of this file: a gain or a loss is claimed, and a ratio quoted, only where the interval does not hold 1; ordinary
clients come first in words, because theirs is what a reader will get; open loops are told in `equal_load`.
"""

import math
from collections.abc import Iterable, Iterator

from pipeline_broker.measure.experiment.equal_load import EQUAL_LOAD_LEGEND, equal_load_sentence, equal_load_table
from pipeline_broker.measure.experiment.intervals import Speedup
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runs import RAW, Cell
from pipeline_broker.measure.experiment.words import NO_DIFFERENCE, aligned, claim, figures_of, load_of, ratio_text

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
    parts += equal_load_sentence(results)
    parts += _ablation_sentence(results)
    parts += _self_sentence(results)
    parts.append(f"Answers out of order: {results.order_violations}.")
    return " ".join(parts)


def _noise(results: Results) -> str:
    """What a mode compared with itself says: how far the method can be trusted on this machine, at this time."""
    mode = results.modes[0]
    gains = [(cell, gain) for cell in results.compared() if (gain := results.speedup(cell)) is not None]
    with_interval = [(cell, gain) for cell, gain in gains if gain.low is not None and gain.high is not None]
    if not with_interval:
        return f"{mode.capitalize()} was compared with itself, in one round only: nothing can be said of the noise."
    holding = sum(not gain.is_above and not gain.is_below for _, gain in with_interval)
    cell, widest = max(with_interval, key=lambda pair: abs(math.log(pair[1].ratio)))
    return (
        f"{mode.capitalize()} was compared with itself, so every true ratio is 1 and what differs is noise: "
        f"{holding} of {len(with_interval)} intervals hold 1 (19 of 20 should), the ratio farthest from it is "
        f"{_named(cell, widest)}."
    )


def _self_sentence(results: Results) -> list[str]:
    """What the machine alone makes of two brokers that differ in nothing."""
    found = [(cell, gain) for cell in results.selves() if (gain := results.speedup(cell)) is not None]
    if not found:
        return []
    ratios = ", ".join(f"{ratio_text(gain)} at {load_of(cell)}" for cell, gain in found)
    return [f"{results.modes[1].capitalize()} beside itself, which should be 1: {ratios}."]


def _ablation_sentence(results: Results) -> list[str]:
    """What each axis buys, under the first load of the ablation."""
    found = [(cell, mode, over) for cell, mode, _, over in results.ablation() if over is not None]
    if not found:
        return []
    first = found[0][0]
    axes = [f"{mode} {claim(over)}" for cell, mode, over in found if cell == first]
    return [f"The axes, each over classic at {load_of(first)}: {', '.join(axes)}."]


def _claim(subject: str, found: Iterable[tuple[Cell, Speedup]]) -> str:
    found = list(found)
    gains = [pair for pair in found if pair[1].is_above]
    losses = [pair for pair in found if pair[1].is_below]
    even = len(found) - len(gains) - len(losses)
    if even == len(found):
        return f"{subject}: {NO_DIFFERENCE} in any of {even} cells."
    words = []
    if gains:
        best = max(gains, key=lambda pair: pair[1].ratio)
        words.append(f"is faster in {len(gains)} of {len(found)} cells, most at {_named(*best)}")
    if losses:
        worst = min(losses, key=lambda pair: pair[1].ratio)
        words.append(f"is slower in {len(losses)} of {len(found)}, most at {_named(*worst)}")
    if even:
        words.append(f"shows {NO_DIFFERENCE} in {even}")
    return f"{subject}: {'; '.join(words)}."


def _named(cell: Cell, gain: Speedup) -> str:
    linger = "" if cell.linger_ms is None else f", linger {cell.linger_ms} ms"
    delay = f", commit delay {cell.commit_delay_ms:g} ms" if cell.commit_delay_ms else ""
    return f"{load_of(cell)}{linger}{delay} ({ratio_text(gain)})"
