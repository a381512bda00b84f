"""The runs of a sweep: in each round, each combination of levels once on both sides.

Loads that are offered a share of a capacity have rounds of their own, after those of the closed loops.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from pipeline_broker.measure.experiment.factors import REQUEST_NAMES, BrokerFactors, Offer, RequestFactors
from pipeline_broker.measure.experiment.plan import self_parts
from pipeline_broker.measure.experiment.rounds import Part, plan_rounds
from pipeline_broker.measure.experiment.runs import RAW, SWEEP_EXPERIMENT, Cell, Group, Side
from pipeline_broker.measure.experiment.sweep import CLOSED, DEFAULT, FACTORS, SHARE, Level, Sweep

IN_FLIGHT_DEFAULT, CONNECTIONS_DEFAULT = 64, 1


def sweep_cells(sweep: Sweep) -> list[Cell]:
    names = [name for name in sweep.factors if name != "mode"]
    return [
        _cell(dict(zip(names, levels, strict=True)))
        for levels in itertools.product(*(sweep.factors[name] for name in names))
    ]


def _cell(chosen: Mapping[str, Level]) -> Cell:
    requests: dict[str, Any] = {attribute: chosen[name] for attribute, name in REQUEST_NAMES.items() if name in chosen}
    properties = {name: str(level) for name, level in chosen.items() if name not in FACTORS and level != DEFAULT}
    flush, commits = chosen.get("flush"), chosen.get("commits_in_flight")
    broker = BrokerFactors(
        None if flush is None else str(flush),
        None if commits is None else int(commits),
        int(chosen.get("brokers", 1)),
        tuple(properties.items()),
    )
    return Cell(
        RAW,
        int(chosen.get("in_flight", IN_FLIGHT_DEFAULT)),
        int(chosen.get("connections", CONNECTIONS_DEFAULT)),
        float(chosen.get("commit_delay", 0.0)),
        broker=broker,
        requests=RequestFactors(**requests),
        offer=_offer(chosen.get("rate", CLOSED)),
    )


def _offer(level: Level) -> Offer | None:
    if level == CLOSED:
        return None
    found = SHARE.fullmatch(str(level))
    return Offer(float(level)) if found is None else Offer(share=float(found["percent"]) / 100, of=found["mode"])


def plan_sweep(sweep: Sweep, seed: int) -> list[Group]:
    """Return the groups of runs in the order to execute; runs are numbered from 1. Equal seeds give equal plans."""
    sides = tuple(Side(mode, number) for number, mode in enumerate(sweep.modes))
    parts = [
        Part(SWEEP_EXPERIMENT, cell, sides, rounds, traced)
        for cell in sweep_cells(sweep)
        for rounds, traced in ((sweep.rounds, False), (min(sweep.traced, sweep.rounds), True))
        if not traced or cell.broker.brokers == 1
    ]
    of_capacity = [part for part in parts if part.cell.offer is not None and part.cell.offer.per_s is None]
    first = [part for part in parts if part not in of_capacity]
    closed = [part.cell for part in first if part.cell.offer is None]
    return plan_rounds([[*first, *self_parts(sweep.modes, closed, sweep.rounds)], of_capacity], seed)
