"""The gaps of an experiment, in sentences: interrupted runs, loads without a partner, implausible rows.

Each kind of gap gets one sentence, with names if there are few. Missing data is never guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_analysis.words import full_name, milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_analysis.cells import Load, Run
    from spark_analysis.summary import Comparison

_NAMES_MAX: Final = 5


def gaps(comparison: Comparison) -> list[str]:
    """Return a sentence for each kind of missing or implausible data, the gravest first."""
    found = [
        _interrupted(comparison.figures.left_out),
        _empty(comparison.figures.runs),
        *_partners(comparison),
        _untraced(comparison.figures.runs),
        _backwards(comparison),
        _unanswered(comparison),
        _lost(comparison.figures.runs),
    ]
    return [sentence for sentence in found if sentence]


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_MAX:,} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more


def _interrupted(left_out: Sequence[str]) -> str:
    if not left_out:
        return ""
    return (
        f"{_many(len(left_out), 'run')} did not finish and {_are(left_out)} left out: {_names(left_out)}. If the "
        "experiment ended early, its later runs are missing too."
    )


def _are(things: Sequence[object]) -> str:
    return "is" if len(things) == 1 else "are"


def _empty(runs: Sequence[Run]) -> str:
    empty = [f"run {run.number}" for run in runs if not run.requests]
    if not empty:
        return ""
    return f"{_many(len(empty), 'run')} measured no request, so this page has no results of {_names(empty)}."


def _partners(comparison: Comparison) -> list[str]:
    zero, one = comparison.sides
    rounds: dict[Load, dict[int, set[int]]] = {}
    for run in comparison.figures.runs:
        if run.compared and run.side in (0, 1):
            rounds.setdefault(run.cell.load, {}).setdefault(run.round, set()).add(run.side)
    alone: dict[str, list[str]] = {}
    short = []
    for load, sides in rounds.items():
        paired = sum(both == {0, 1} for both in sides.values())
        if not paired:
            present = {side for both in sides.values() for side in both}
            lacking = "the other side" if present == {0, 1} or zero == one else one if 0 in present else zero
            alone.setdefault(lacking, []).append(full_name(load))
        elif paired < len(sides):
            short.append(f"{full_name(load)} ({len(sides) - paired} of {len(sides)} rounds)")
    found = [
        f"{_many(len(names), 'load')} {'has' if len(names) == 1 else 'have'} no run of {lacking} in the same round, "
        f"and no speed-up: {_names(names)}."
        for lacking, names in alone.items()
    ]
    if short:
        found.append(f"Rounds in which one side is missing do not count in the speed-up of: {_names(short)}.")
    return found


def _untraced(runs: Sequence[Run]) -> str:
    if any(run.traced for run in runs):
        return ""
    return "No run was traced, so stage times are unknown, and only the client's data shows the order of responses."


def _backwards(comparison: Comparison) -> str:
    found = [part for part in comparison.figures.inside.quality if part.backwards]
    if not found:
        return ""
    rows = sum(part.backwards for part in found)
    farthest = max(part.step_us for part in found)
    runs = sorted({f"run {part.run}" for part in found})
    return (
        f"A clock went back: stamps of {_many(rows, 'row')} are in the wrong order, by up to "
        f"{milliseconds(farthest / 1000)}, in {_names(runs)}. Negative durations count as 0. Do not trust those runs."
    )


def _unanswered(comparison: Comparison) -> str:
    found = [part for part in comparison.figures.inside.quality if part.table == "client" and part.unanswered]
    if not found:
        return ""
    rows = sum(part.unanswered for part in found)
    numbers = {part.run for part in found}
    runs = [run for run in comparison.figures.runs if run.number in numbers]
    loads = list(dict.fromkeys(f"{full_name(run.cell.load)}, {run.cell.mode}" for run in runs))
    return f"{_many(rows, 'request')} had no answer when the client stopped, under the loads: {_names(loads)}."


def _lost(runs: Sequence[Run]) -> str:
    lost = [run for run in runs if run.lost_rows]
    if not lost:
        return ""
    rows = sum(run.lost_rows for run in lost)
    where = _many(len(lost), "run")
    return (
        f"{_many(rows, 'trace row')} did not fit into a ring, in {where}. Counts of rows are too low in "
        f"{'that run' if len(lost) == 1 else 'those runs'}."
    )
