"""The runs of a sweep and their order.

Rules of this file: no I/O; the order is drawn from a seed and from nothing else, so that the same seed gives the same
plan. A round has every load once on both sides, back to back; in which order is drawn anew for each round, so that
what drifts or disturbs for a while hits loads at random. Loads that need brokers started alike stay together within a
round, in brokers of their own. Which side goes first is drawn for the first round and then alternates.
"""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from pipeline_broker.measure.experiment.factors import BrokerFactors, RequestFactors
from pipeline_broker.measure.experiment.plan import RAW, SWEEP_EXPERIMENT, Cell, Group, Run, Side, numbered
from pipeline_broker.measure.experiment.sweep import DEFAULT, FACTORS, Level, Sweep

IN_FLIGHT_DEFAULT, CONNECTIONS_DEFAULT = 64, 1
_REQUEST_ATTRIBUTES = {
    "record_size": "record_size",
    "batch": "batch_records",
    "compression": "compression",
    "keys": "keys",
    "idempotent": "is_idempotent",
    "transaction": "transaction_requests",
}


def sweep_cells(sweep: Sweep) -> list[Cell]:
    """All combinations of the levels but those of `mode`, in the order of the file."""
    names = [name for name in sweep.factors if name != "mode"]
    return [
        _cell(dict(zip(names, levels, strict=True)))
        for levels in itertools.product(*(sweep.factors[name] for name in names))
    ]


def _cell(chosen: Mapping[str, Level]) -> Cell:
    requests: dict[str, Any] = {
        attribute: chosen[name] for name, attribute in _REQUEST_ATTRIBUTES.items() if name in chosen
    }
    properties = {name: str(level) for name, level in chosen.items() if name not in FACTORS and level != DEFAULT}
    flush, commits = chosen.get("flush"), chosen.get("commits_in_flight")
    return Cell(
        RAW,
        int(chosen.get("in_flight", IN_FLIGHT_DEFAULT)),
        int(chosen.get("connections", CONNECTIONS_DEFAULT)),
        float(chosen.get("commit_delay", 0.0)),
        broker=BrokerFactors(
            None if flush is None else str(flush), None if commits is None else int(commits), tuple(properties.items())
        ),
        requests=RequestFactors(**requests),
    )


def plan_sweep(sweep: Sweep, seed: int) -> list[Group]:
    """Everything that is to be run, in order, numbered from 1."""
    order = random.Random(seed)  # noqa: S311 - the order of runs
    sides = tuple(Side(mode, number) for number, mode in enumerate(sweep.modes))
    blocks: dict[tuple[float, BrokerFactors], list[Cell]] = {}
    for cell in sweep_cells(sweep):
        blocks.setdefault((cell.commit_delay_ms, cell.broker), []).append(cell)
    begins_reversed = {cell: order.random() < 1 / 2 for cells in blocks.values() for cell in cells}
    groups = []
    for round_number in range(1, sweep.rounds + 1 + sweep.traced):
        traced = round_number > sweep.rounds
        for delay, broker in order.sample(list(blocks), len(blocks)):
            cells = blocks[delay, broker]
            runs: list[Run] = []
            for cell in order.sample(cells, len(cells)):
                is_reversed = begins_reversed[cell] is bool(round_number % 2)
                both = reversed(sides) if is_reversed else sides
                runs += [Run(0, round_number, traced, side, cell, SWEEP_EXPERIMENT) for side in both]
            groups.append(Group(sides, delay, tuple(runs), broker))
    return numbered(groups)


def pairs(group: Group) -> list[tuple[Run, ...]]:
    """The runs that are compared with each other: of one load, in one round."""
    width = len(group.sides)
    return [group.runs[start : start + width] for start in range(0, len(group.runs), width)]


def remaining(groups: Sequence[Group], is_done: Callable[[Run], bool]) -> list[Group]:
    """The groups without the pairs that are done; a pair of which one half is missing is run again as a whole."""
    left = []
    for group in groups:
        runs = tuple(run for pair in pairs(group) if not all(map(is_done, pair)) for run in pair)
        if runs:
            left.append(attrs.evolve(group, runs=runs))
    return left
