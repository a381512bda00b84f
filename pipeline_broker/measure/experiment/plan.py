"""What an experiment consists of.

Rules of this file: no I/O; the numbers of the profiles stand here and nowhere else. In which order the parts are run is
decided in `rounds`. What is offered in an open loop is a share of what the closed loop has reached, so the open loops
come in rounds of their own, after the last closed one.
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
"""In flight, connections, delay of a commit in ms."""
FULL_LOADS: tuple[Load, ...] = (
    *((in_flight, connections, 0.0) for connections in (1, 16) for in_flight in (1, 5, 16, 64)),
    *((in_flight, 1, delay) for delay in (0.3, 2.0, 10.0) for in_flight in (1, 5, 64)),
    *((16, 16, delay) for delay in (0.3, 2.0, 10.0)),
)
LINGERS_MS = (0, 5)
DEPARTURE_CONNECTIONS = 4
ROUNDS_MAX = 1000
AUTO_ROUNDS_MAX = 25
"""Of an experiment that ends when its intervals are narrow."""
PAIRS_PER_S = 1_000.0
"""Messages a second of all pairs of a load: a pace that every broker keeps."""
TRACED_ROUNDS = 3
"""As many as an interval needs to be worth its ink; a traced run starts a broker of its own."""
REPLAY_ROUNDS_MAX = 7
"""A round replays its part of the departures, a day of the busiest week at least."""
Step = tuple[float, int]
"""A share of a capacity, and the side whose capacity it is."""
LADDER_STEPS: tuple[Step, ...] = ((0.2, 0), (0.35, 0), (0.5, 0), (0.65, 0), (0.8, 1))
"""Side A keeps the pace of all but the last: its capacity in an open loop is about three quarters of that in a closed
loop."""


@attrs.frozen(slots=True)
class Profile:
    """How much is run without options.

    Attributes:
        rounds: of everything but what is traced.
        turns: of each side in a round, of the raw client in a closed loop.
        producers: of ordinary clients.
        readers: connections that read, each with one request in flight, as a consumer has.
        pairs: of a producer and a consumer.
        replay_whole_year: all departures, not only those of the busiest week.
        loads: of the raw client in a closed loop.
        traced_loads, self_loads, ladder_loads: those of them that are traced, compared with themselves, and offered.
        ladder_steps: offers to each of them.
        page_cache_loads: those of them that are driven once more on brokers that do not wait for the disk.
        ablation_modes: the brokers of the ablation, which are driven side by side.
        ablation_loads: of the ablation.
        run_s, warmup_s: of each run, the second within the first.
        open_s: of a run of an open loop at least: whether a side keeps the pace shows with time.
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
        # Classic and pipelined too, so that each axis is paired with a classic run right beside it.
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
"""The same where a commit is a request to a store, which takes tens of milliseconds: fewer loads, longer runs; nothing
is offered at a pace that the classic mode would have to keep, and readers would read what no object holds yet."""


@attrs.frozen(slots=True)
class Request:
    """What was asked for; a grid without values is the profile's own, with all that belongs to it.

    Attributes:
        rounds: untraced ones; None: those of the profile.
        budget_s: for an experiment that ends when its intervals are narrow; None: it has all its rounds.
        others: brokers that are not ours and are driven beside the two sides, where no delay is injected into commits.
        on_store: whether journal and archive are in a store of objects.
        trace: the requests of a broker, which are all that is run; None: what the profile says.
        command: of a client of the user, which is all that is run; empty: what the profile says.
        replay_connections: that send recorded events.
    """

    profile: str = "quick"
    modes: tuple[str, str] = COMPARED_MODES
    in_flight: tuple[int, ...] = ()
    connections: tuple[int, ...] = ()
    delays_ms: tuple[float, ...] = ()
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
        """How much is run, and how long."""
        return (STORE_PROFILES if self.on_store else PROFILES)[self.profile]

    @property
    def chosen_grid(self) -> bool:
        """Whether the user asked for cells of their own."""
        return bool(self.in_flight or self.connections or self.delays_ms)

    @property
    def rounds_wanted(self) -> int:
        """Of everything but what is traced."""
        return AUTO_ROUNDS_MAX if self.budget_s is not None else self.rounds or self.sizes.rounds

    @property
    def replay_rounds(self) -> int:
        """In how many rounds the departures are replayed, each a part of them."""
        return min(self.rounds_wanted, REPLAY_ROUNDS_MAX)

    @property
    def sides(self) -> tuple[Side, ...]:
        """Side A and side B."""
        return tuple(Side(mode, number) for number, mode in enumerate(self.modes))

    @property
    def all_sides(self) -> tuple[Side, ...]:
        """The two, and brokers that are not ours."""
        return (*self.sides, *(Side(mode, number) for number, mode in enumerate(self.others, start=2)))


def grid(request: Request) -> list[Cell]:
    """The cells of the raw client."""
    if not request.chosen_grid:
        return [Cell(RAW, *load) for load in request.sizes.loads]
    return [
        Cell(RAW, in_flight, connections, delay)
        for delay in request.delays_ms or QUICK_DELAYS_MS
        for connections in request.connections or QUICK_CONNECTIONS
        for in_flight in request.in_flight or QUICK_IN_FLIGHT
    ]


def plan(request: Request, seed: int) -> list[Group]:
    """Everything that is to be run, in order, numbered from 1."""
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
    """A trace or a command on all sides, and on ours once more, traced."""
    if request.trace is not None:
        experiment, cell, rounds = REPLAY_EXPERIMENT, Cell(REPLAY, 0, request.replay_connections), request.replay_rounds
    else:
        experiment, cell, rounds = COMMAND_EXPERIMENT, Cell(COMMAND, 0, 1), request.rounds_wanted
    yield Part(experiment, cell, request.all_sides, rounds)
    yield Part(experiment, cell, request.sides, min(TRACED_ROUNDS, rounds), traced=True)


def reading_order(groups: Iterable[Group]) -> list[Cell]:
    """The closed loops of both sides as a reader looks for them, in whichever order they are run."""
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
        sides = request.sides if cell.commit_delay_ms else request.all_sides
        yield Part(GRID_EXPERIMENT, cell, sides, request.rounds_wanted, turns=request.sizes.turns)


def _traced(request: Request, cells: Sequence[Cell]) -> Iterator[Part]:
    for cell in cells:
        yield Part(GRID_EXPERIMENT, cell, request.sides, min(TRACED_ROUNDS, request.rounds_wanted), traced=True)


def self_parts(modes: Sequence[str], cells: Sequence[Cell], rounds: int, turns: int = 1) -> list[Part]:
    """Side B with itself on two brokers, under the deepest of these loads on the least delayed brokers.

    Where both sides are one mode, the whole experiment is that.
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
    """Loads without the disk, which is most of what differs from run to run."""
    profile = request.sizes
    for cell in _cells(profile.page_cache_loads):
        of_page_cache = attrs.evolve(cell, broker=BrokerFactors(flush="os"))
        yield Part(PAGE_CACHE_EXPERIMENT, of_page_cache, request.sides, request.rounds_wanted, turns=profile.turns)


def _consumers(request: Request) -> Iterator[Part]:
    """Readers at full speed, and the time from publishing to consuming at a given pace."""
    profile = request.sizes
    for readers in profile.readers:
        cell = Cell(READER, 1, readers)
        yield Part(CONSUMERS_EXPERIMENT, cell, request.all_sides, request.rounds_wanted, turns=profile.turns)
    for pairs in profile.pairs if request.with_confluent else ():
        cell = Cell(PAIRS, 0, pairs, offer=Offer(PAIRS_PER_S))
        yield Part(CONSUMERS_EXPERIMENT, cell, request.all_sides, request.rounds_wanted)


def _ablation(request: Request) -> Iterator[Part]:
    """The axes one at a time, side by side."""
    profile, modes = request.sizes, request.modes
    sides = tuple(Side(mode, modes.index(mode) if mode in modes else 1) for mode in profile.ablation_modes)
    for cell in _cells(profile.ablation_loads):
        yield Part(ABLATION_EXPERIMENT, cell, sides, request.rounds_wanted)


def _ladder(request: Request) -> Iterator[Part]:
    """Equal offers to all sides, in steps up to what side A can do and further."""
    offers = dict.fromkeys(Offer(share=share, of=request.modes[side]) for share, side in request.sizes.ladder_steps)
    for cell in _cells(request.sizes.ladder_loads):
        for offer in offers:
            part = attrs.evolve(cell, offer=offer)
            yield Part(LADDER_EXPERIMENT, part, request.all_sides, request.rounds_wanted)
