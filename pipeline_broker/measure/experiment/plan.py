"""The plan of an experiment: its profiles, loads and sides, as parts of rounds.

Most open loops offer a share of the capacity that the closed loop of their load reached. They therefore have rounds of
their own, after the last closed loop.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from pipeline_broker.measure.experiment.factors import BrokerFactors, Offer
from pipeline_broker.measure.experiment.modes import ABLATION_MODES, AXIS_MODES, COMPARED_MODES
from pipeline_broker.measure.experiment.rounds import Part, plan_rounds
from pipeline_broker.measure.experiment.runs import (
    ABLATION_EXPERIMENT,
    CLIENTS_EXPERIMENT,
    COMMAND,
    COMMAND_EXPERIMENT,
    CONFLUENT,
    CONFLUENT_IN_FLIGHT,
    CONSUMERS_EXPERIMENT,
    GRID_EXPERIMENT,
    LADDER_EXPERIMENT,
    PAGE_CACHE_EXPERIMENT,
    PAIRS,
    RAW,
    READER,
    REPLAY,
    REPLAY_EXPERIMENT,
    SELF_EXPERIMENT,
    Cell,
    Group,
    Side,
)

QUICK_IN_FLIGHT = (1, 5, 64)
QUICK_CONNECTIONS = (1, 16)
QUICK_DELAYS_MS = (0.0,)
_CLOSED_EXPERIMENTS = (
    GRID_EXPERIMENT,
    PAGE_CACHE_EXPERIMENT,
    CLIENTS_EXPERIMENT,
    CONSUMERS_EXPERIMENT,
    COMMAND_EXPERIMENT,
)
Load = tuple[int, int, float]
"""Requests in flight, connections, and the delay of a commit in ms."""
FULL_LOADS: tuple[Load, ...] = (
    *((in_flight, connections, 0.0) for connections in (1, 16) for in_flight in (1, 5, 16, 64)),
    *((in_flight, 1, delay) for delay in (0.3, 2.0, 10.0) for in_flight in (1, 5, 64)),
    *((16, 16, delay) for delay in (0.3, 2.0, 10.0)),
)
LINGERS_MS = (0, 5)
DEPARTURE_CONNECTIONS = 4
ROUNDS_MAX = 1000
BROKERS_MAX = 64
"""Maximum of `serve --brokers`."""
AUTO_ROUNDS_MAX = 25
"""Maximum for an experiment that stops once its intervals are narrow."""
PAIRS_PER_S = 1_000.0
"""Messages per second of all pairs of a load; every broker keeps this pace."""
TRACED_ROUNDS = 3
"""The smallest number with an interval. More would take long, because each traced run starts its own broker."""
REPLAY_ROUNDS_MAX = 7
"""Each round replays a part of the departures. With seven, it is a day of the busiest week or more."""
Step = tuple[float, int]
"""A share of a capacity, and the number of the side with this capacity."""
LADDER_STEPS: tuple[Step, ...] = ((0.2, 0), (0.35, 0), (0.5, 0), (0.65, 0), (0.8, 1))
"""The offers of the ladder. Side A keeps the pace of all but the last one: its capacity in an open loop is about three
quarters of that in a closed loop."""


@attrs.frozen(slots=True)
class Profile:
    """The extent of an experiment without options.

    Attributes:
        rounds: rounds of everything that is not traced.
        turns: runs of each side per round, for closed loops of the native client.
        producers: numbers of ordinary producers.
        readers: numbers of reading connections, each with one request in flight, like a consumer.
        pairs: numbers of pairs of a producer and a consumer.
        replay_whole_year: replays all departures instead of the busiest week.
        loads: closed loops of the native client.
        traced_loads, self_loads, ladder_loads: loads that are traced, compared with themselves, and offered in open
            loops.
        ladder_steps: offers of each ladder load.
        page_cache_loads: loads that are repeated on brokers that do not wait for the disk.
        ablation_modes: modes of the ablation, which are driven side by side.
        run_s, warmup_s: duration of each run, and the warm-up as a part of it.
        open_s: minimum duration of an open loop. It takes time until a side that cannot keep the pace shows it.
    """

    rounds: int
    turns: int
    producers: tuple[int, ...]
    readers: tuple[int, ...]
    pairs: tuple[int, ...]
    replay_whole_year: bool
    loads: tuple[Load, ...]
    traced_loads: tuple[Load, ...]
    self_loads: tuple[Load, ...]
    ladder_loads: tuple[Load, ...]
    ladder_steps: tuple[Step, ...]
    page_cache_loads: tuple[Load, ...]
    ablation_modes: tuple[str, ...]
    ablation_loads: tuple[Load, ...]
    run_s: float
    warmup_s: float
    open_s: float


PROFILES = {
    "quick": Profile(
        rounds=5,
        turns=3,
        producers=(1, 16),
        readers=(16,),
        pairs=(1,),
        replay_whole_year=False,
        loads=((1, 1, 0.0), (64, 1, 0.0), (64, 16, 0.0)),
        traced_loads=((64, 1, 0.0), (64, 16, 0.0)),
        self_loads=((64, 1, 0.0),),
        ladder_loads=((64, 16, 0.0),),
        ladder_steps=((0.35, 0), (0.65, 0), (0.8, 1)),
        page_cache_loads=(),
        ablation_modes=ABLATION_MODES,
        ablation_loads=((64, 1, 0.0),),
        run_s=0.25,
        warmup_s=0.05,
        open_s=0.33,
    ),
    "full": Profile(
        rounds=7,
        turns=2,
        producers=(1, 4, 16),
        readers=(1, 16),
        pairs=(1, 16),
        replay_whole_year=True,
        loads=FULL_LOADS,
        traced_loads=FULL_LOADS,
        self_loads=((1, 1, 0.0), (64, 1, 0.0), (16, 16, 0.0)),
        ladder_loads=((64, 1, 0.0), (64, 16, 0.0)),
        ladder_steps=LADDER_STEPS,
        page_cache_loads=((1, 1, 0.0), (64, 1, 0.0)),
        # With classic and pipelined, so that each axis is paired with a classic run of the same minutes.
        ablation_modes=("classic", *AXIS_MODES, "pipelined"),
        ablation_loads=((64, 1, 0.0), (16, 16, 0.0), (64, 1, 2.0)),
        run_s=0.4,
        warmup_s=0.1,
        open_s=1.0,
    ),
}


STORE_LOADS: tuple[Load, ...] = ((1, 1, 0.0), (64, 1, 0.0), (64, 16, 0.0))
STORE_PROFILES = {
    name: attrs.evolve(
        profile,
        loads=STORE_LOADS if name == "quick" else (*STORE_LOADS, (5, 1, 0.0), (16, 16, 0.0)),
        traced_loads=STORE_LOADS,
        self_loads=((64, 1, 0.0),),
        ladder_loads=(),
        ablation_loads=((64, 1, 0.0),),
        readers=(),
        pairs=(),
        page_cache_loads=(),
        turns=1,
        run_s=2.0,
        warmup_s=0.5,
    )
    for name, profile in PROFILES.items()
}
"""The profiles for brokers on an object store, where a commit is a request of tens of milliseconds.

They have fewer loads and longer runs. They leave out open loops, because classic could not keep their pace, and
readers, which would read records that no object contains yet."""


@attrs.frozen(slots=True)
class Request:
    """The requested extent of an experiment. Without values for the grid, it consists of everything in its profile.

    Attributes:
        in_flight, connections, delays_ms, brokers: levels of the grid; the delays are those of every commit.
        rounds: untraced rounds; None uses those of the profile.
        budget_s: time limit of an experiment that stops once its intervals are narrow; None runs all rounds.
        others: brokers of other projects. They run beside the two sides, in cells without a commit delay.
        on_store: whether journals and archives are in an object store.
        trace: trace of a broker, which is replayed and replaces the profile.
        command: command line of a user's client, which replaces the profile; empty for none.
        replay_connections: connections that send recorded events.
    """

    profile: str = "quick"
    modes: tuple[str, str] = COMPARED_MODES
    in_flight: tuple[int, ...] = ()
    connections: tuple[int, ...] = ()
    delays_ms: tuple[float, ...] = ()
    brokers: tuple[int, ...] = ()
    rounds: int | None = None
    budget_s: float | None = None
    with_confluent: bool = True
    with_replay: bool = True
    others: tuple[str, ...] = ()
    on_store: bool = False
    trace: Path | None = None
    command: str = ""
    replay_connections: int = DEPARTURE_CONNECTIONS

    @property
    def sizes(self) -> Profile:
        return (STORE_PROFILES if self.on_store else PROFILES)[self.profile]

    @property
    def chosen_grid(self) -> bool:
        return bool(self.in_flight or self.connections or self.delays_ms or self.brokers)

    @property
    def rounds_wanted(self) -> int:
        return AUTO_ROUNDS_MAX if self.budget_s is not None else self.rounds or self.sizes.rounds

    @property
    def replay_rounds(self) -> int:
        return min(self.rounds_wanted, REPLAY_ROUNDS_MAX)

    @property
    def sides(self) -> tuple[Side, ...]:
        return tuple(Side(mode, number) for number, mode in enumerate(self.modes))

    @property
    def all_sides(self) -> tuple[Side, ...]:
        return (*self.sides, *(Side(mode, number) for number, mode in enumerate(self.others, start=2)))


def grid(request: Request) -> list[Cell]:
    if not request.chosen_grid:
        return [Cell(RAW, *load) for load in request.sizes.loads]
    return [
        Cell(RAW, in_flight, connections, delay, broker=BrokerFactors(brokers=brokers))
        for brokers in request.brokers or (1,)
        for delay in request.delays_ms or QUICK_DELAYS_MS
        for connections in request.connections or QUICK_CONNECTIONS
        for in_flight in request.in_flight or QUICK_IN_FLIGHT
    ]


def plan(request: Request, seed: int) -> list[Group]:
    """Return the groups of runs in the order to execute; runs are numbered from 1. Equal seeds give equal plans."""
    if request.trace is not None or request.command:
        return plan_rounds([list(_of_the_user(request))], seed)
    profile = request.sizes
    cells = grid(request)
    traced = cells if request.chosen_grid else _cells(profile.traced_loads)
    selves = [cells] if request.chosen_grid else [[cell] for cell in _cells(profile.self_loads)]
    closed = [*_closed(request, cells), *_traced(request, traced)]
    for loads in selves:
        closed += self_parts(request.modes, loads, request.rounds_wanted, profile.turns)
    if request.chosen_grid:
        return plan_rounds([closed], seed)
    closed += [*_page_cache(request), *_clients(request), *_consumers(request)]
    if request.with_replay:
        cell = Cell(REPLAY, 0, request.replay_connections)
        closed.append(Part(REPLAY_EXPERIMENT, cell, request.sides, request.replay_rounds))
    if set(request.modes) == set(COMPARED_MODES):
        closed += _ablation(request)
    return plan_rounds([closed, list(_ladder(request))], seed)


def _of_the_user(request: Request) -> Iterator[Part]:
    """Yield the replay of a trace, or a command, on all sides, then traced runs on the sides of this project."""
    if request.trace is not None:
        experiment, cell, rounds = REPLAY_EXPERIMENT, Cell(REPLAY, 0, request.replay_connections), request.replay_rounds
    else:
        experiment, cell, rounds = COMMAND_EXPERIMENT, Cell(COMMAND, 0, 1), request.rounds_wanted
    yield Part(experiment, cell, request.all_sides, rounds)
    yield Part(experiment, cell, request.sides, min(TRACED_ROUNDS, rounds), traced=True)


def reading_order(groups: Iterable[Group]) -> list[Cell]:
    """Return the closed loops of both sides in the order in which the tables list them."""
    runs = (run for group in groups for run in group.runs)
    cells = {run.cell for run in runs if run.experiment in _CLOSED_EXPERIMENTS}
    return sorted(
        cells,
        key=lambda it: (
            it.client != RAW,
            it.variant,
            it.linger_ms or 0,
            it.commit_delay_ms,
            it.connections,
            it.in_flight,
        ),
    )


def _cells(loads: Sequence[Load]) -> list[Cell]:
    return [Cell(RAW, *load) for load in loads]


def _closed(request: Request, cells: Sequence[Cell]) -> Iterator[Part]:
    for cell in cells:
        # A commit delay is injected by `serve --commit-delay`, which other brokers lack.
        sides = request.sides if cell.commit_delay_ms else request.all_sides
        yield Part(GRID_EXPERIMENT, cell, sides, request.rounds_wanted, turns=request.sizes.turns)


def _traced(request: Request, cells: Sequence[Cell]) -> Iterator[Part]:
    for cell in cells:
        if cell.broker.brokers == 1:  # the strings of a trace are those of one process
            yield Part(GRID_EXPERIMENT, cell, request.sides, min(TRACED_ROUNDS, request.rounds_wanted), traced=True)


def self_parts(modes: Sequence[str], cells: Sequence[Cell], rounds: int, turns: int = 1) -> list[Part]:
    """Return the comparison of side B with itself, on two brokers.

    Its load has the most requests in flight among those with the smallest commit delay. If both sides have the same
    mode, the whole experiment is such a comparison, and the list is empty.
    """
    first, second = modes
    if first == second or not cells:
        return []
    deepest = max(cells, key=lambda cell: (-cell.commit_delay_ms, cell.in_flight * cell.connections))
    sides = (Side(second, 0), Side(second, 1))
    return [Part(SELF_EXPERIMENT, attrs.evolve(deepest, is_self=True), sides, rounds, turns=turns)]


def _clients(request: Request) -> Iterator[Part]:
    if not request.with_confluent:
        return
    for linger in LINGERS_MS:
        for producers in request.sizes.producers:
            cell = Cell(CONFLUENT.format(linger), CONFLUENT_IN_FLIGHT, producers, linger_ms=linger)
            yield Part(CLIENTS_EXPERIMENT, cell, request.all_sides, request.rounds_wanted)


def _page_cache(request: Request) -> Iterator[Part]:
    profile = request.sizes
    for cell in _cells(profile.page_cache_loads):
        # The disk causes most of the variation between runs, so these loads have narrower intervals.
        of_page_cache = attrs.evolve(cell, broker=BrokerFactors(flush="os"))
        yield Part(PAGE_CACHE_EXPERIMENT, of_page_cache, request.sides, request.rounds_wanted, turns=profile.turns)


def _consumers(request: Request) -> Iterator[Part]:
    profile = request.sizes
    for readers in profile.readers:
        # A consumer has one request in flight, so readers have a window of one.
        cell = Cell(READER, 1, readers)
        yield Part(CONSUMERS_EXPERIMENT, cell, request.all_sides, request.rounds_wanted, turns=profile.turns)
    for pairs in profile.pairs if request.with_confluent else ():
        cell = Cell(PAIRS, 0, pairs, offer=Offer(PAIRS_PER_S))
        yield Part(CONSUMERS_EXPERIMENT, cell, request.all_sides, request.rounds_wanted)


def _ablation(request: Request) -> Iterator[Part]:
    profile, modes = request.sizes, request.modes
    sides = tuple(Side(mode, modes.index(mode) if mode in modes else 1) for mode in profile.ablation_modes)
    for cell in _cells(profile.ablation_loads):
        yield Part(ABLATION_EXPERIMENT, cell, sides, request.rounds_wanted)


def _ladder(request: Request) -> Iterator[Part]:
    # Both sides may be the same mode, which makes two steps equal; `fromkeys` keeps one of them.
    offers = dict.fromkeys(Offer(share=share, of=request.modes[side]) for share, side in request.sizes.ladder_steps)
    for cell in _cells(request.sizes.ladder_loads):
        for offer in offers:
            part = attrs.evolve(cell, offer=offer)
            yield Part(LADDER_EXPERIMENT, part, request.all_sides, request.rounds_wanted)
