"""What is run, and in which order.

Rules of this file: no I/O; a plan is a list of groups, each with the runs that share one pair (or triple) of brokers,
in the order in which they happen; the sides take turns in going first, so that what drifts over an experiment hits
both. The numbers of the profiles stand here and nowhere else.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import attrs

from pipeline_broker.measure.experiment.factors import (
    ORDINARY_BROKER,
    ORDINARY_REQUESTS,
    BrokerFactors,
    RequestFactors,
    variant,
)
from pipeline_broker.measure.experiment.modes import ABLATION_MODES, AXIS_MODES, COMPARED_MODES

RAW = "raw"
REPLAY = "replay"
CONFLUENT = "confluent-kafka linger={}"
CONFLUENT_IN_FLIGHT = 5  # of an idempotent librdkafka producer at its defaults

GRID_EXPERIMENT = "grid"
SWEEP_EXPERIMENT = "sweep"
ABLATION_EXPERIMENT = "ablation"
REPLAY_EXPERIMENT = "replay"
CLIENTS_EXPERIMENT = "clients"

QUICK_IN_FLIGHT = (1, 5, 64)
QUICK_CONNECTIONS = (1, 16)
QUICK_DELAYS_MS = (0.0,)
Load = tuple[int, int, float]
"""In flight, connections, delay of a commit in ms."""
QUICK_DELAYED: tuple[Load, ...] = ((64, 1, 2.0), (64, 1, 10.0))
FULL_LOADS: tuple[Load, ...] = (
    *((in_flight, connections, 0.0) for connections in (1, 16) for in_flight in (1, 5, 16, 64)),
    *((in_flight, 1, delay) for delay in (0.3, 2.0, 10.0) for in_flight in (1, 5, 64)),
    *((16, 16, delay) for delay in (0.3, 2.0, 10.0)),
)
LINGERS_MS = (0, 5)


@attrs.frozen(slots=True)
class Profile:
    """How much is run without options.

    Attributes:
        rounds: of the grid, untraced.
        rounds_of_parts: of ordinary clients and of the ablation.
        producers: of ordinary clients.
        replay_whole_year: all departures, not only those of the busiest week.
        loads: of the raw client.
        ablation_modes: the brokers of the ablation, which are driven side by side.
        ablation_loads: of the ablation.
        run_s, warmup_s: of each run, the second within the first.
        is_announced: whether the time that it will take is told before it begins.
    """

    rounds: int
    rounds_of_parts: int
    producers: tuple[int, ...]
    replay_whole_year: bool
    loads: tuple[Load, ...]
    ablation_modes: tuple[str, ...]
    ablation_loads: tuple[Load, ...]
    run_s: float = 0.4
    warmup_s: float = 0.1
    is_announced: bool = False


PROFILES = {
    "quick": Profile(
        rounds=5,
        rounds_of_parts=3,
        producers=(1, 16),
        replay_whole_year=False,
        loads=(
            *((in_flight, connections, 0.0) for connections in QUICK_CONNECTIONS for in_flight in QUICK_IN_FLIGHT),
            *QUICK_DELAYED,
        ),
        ablation_modes=ABLATION_MODES,
        ablation_loads=((64, 1, 0.0),),
    ),
    "full": Profile(
        rounds=7,
        rounds_of_parts=7,
        producers=(1, 4, 16),
        replay_whole_year=True,
        loads=FULL_LOADS,
        # Classic and pipelined too, so that each axis is paired with a classic run right beside it.
        ablation_modes=("classic", *AXIS_MODES, "pipelined"),
        ablation_loads=((64, 1, 0.0), (16, 16, 0.0), (64, 1, 2.0)),
        is_announced=True,
    ),
}


@attrs.frozen(slots=True)
class Cell:
    """A load; each side is driven with it."""

    client: str
    in_flight: int
    connections: int
    commit_delay_ms: float = 0.0
    linger_ms: int | None = None
    broker: BrokerFactors = ORDINARY_BROKER
    requests: RequestFactors = ORDINARY_REQUESTS

    @property
    def variant(self) -> str:
        """What else sets it apart from other cells; empty in an ordinary experiment."""
        return variant(self.broker, self.requests)


@attrs.frozen(slots=True)
class Side:
    """One of the brokers compared: its mode, and its place in the pair."""

    mode: str
    number: int


@attrs.frozen(slots=True)
class Run:
    """One run of a cell on one side."""

    number: int
    round: int
    traced: bool
    side: Side
    cell: Cell
    experiment: str


@attrs.frozen(slots=True)
class Group:
    """Runs that share brokers: one per side, and untraced; a traced run gets a broker of its own."""

    sides: tuple[Side, ...]
    commit_delay_ms: float
    runs: tuple[Run, ...]
    broker: BrokerFactors = ORDINARY_BROKER


Draft = tuple[tuple[Side, ...], float, list[Run]]
"""A group whose runs have no numbers yet."""


@attrs.frozen(slots=True)
class Request:
    """What was asked for; a grid without values is the profile's own, with all that belongs to it.

    Attributes:
        others: brokers that are not ours and are driven beside the two sides, where no delay is injected into commits.
    """

    profile: str = "quick"
    modes: tuple[str, str] = COMPARED_MODES
    in_flight: tuple[int, ...] = ()
    connections: tuple[int, ...] = ()
    delays_ms: tuple[float, ...] = ()
    rounds: int | None = None
    with_confluent: bool = True
    with_replay: bool = True
    others: tuple[str, ...] = ()

    @property
    def chosen_grid(self) -> bool:
        """Whether the user asked for cells of their own."""
        return bool(self.in_flight or self.connections or self.delays_ms)


def grid(request: Request) -> list[Cell]:
    """The cells of the raw client."""
    if not request.chosen_grid:
        return [Cell(RAW, *load) for load in PROFILES[request.profile].loads]
    return [
        Cell(RAW, in_flight, connections, delay)
        for delay in request.delays_ms or QUICK_DELAYS_MS
        for connections in request.connections or QUICK_CONNECTIONS
        for in_flight in request.in_flight or QUICK_IN_FLIGHT
    ]


def plan(request: Request) -> list[Group]:
    """Everything that is to be run, in order, numbered from 1."""
    profile = PROFILES[request.profile]
    sides = tuple(Side(mode, number) for number, mode in enumerate(request.modes))
    others = tuple(Side(mode, number) for number, mode in enumerate(request.others, start=len(sides)))
    rounds = request.rounds or profile.rounds
    parts = min(rounds, profile.rounds_of_parts)
    cells = grid(request)
    delays = list(dict.fromkeys(cell.commit_delay_ms for cell in cells))
    drafts: list[Draft] = []
    for delay in delays:
        own = [cell for cell in cells if cell.commit_delay_ms == delay]
        driven = sides if delay else sides + others
        drafts.append((driven, delay, list(_rounds(own, driven, rounds, GRID_EXPERIMENT))))
        drafts.append((sides, delay, list(_traced(own, sides, rounds + 1))))
    if not request.chosen_grid:
        if request.with_confluent:
            clients = [
                Cell(CONFLUENT.format(linger), CONFLUENT_IN_FLIGHT, producers, linger_ms=linger)
                for linger in LINGERS_MS
                for producers in profile.producers
            ]
            # Cell by cell, because its producers live as long as a cell does.
            for client in clients:
                drafts[0][2].extend(_rounds([client], drafts[0][0], parts, CLIENTS_EXPERIMENT))
        if request.with_replay:
            drafts[0][2].extend(_rounds([Cell(REPLAY, 0, 4)], sides, 1, REPLAY_EXPERIMENT))
        if set(request.modes) == set(COMPARED_MODES):
            drafts += _ablation(profile, request.modes, parts)
    return _numbered(drafts)


def _ablation(profile: Profile, modes: tuple[str, str], rounds: int) -> Iterator[Draft]:
    """The axes one at a time, all brokers of one delay side by side."""
    sides = tuple(Side(mode, modes.index(mode) if mode in modes else 1) for mode in profile.ablation_modes)
    cells = [Cell(RAW, *load) for load in profile.ablation_loads]
    for delay in dict.fromkeys(cell.commit_delay_ms for cell in cells):
        own = [cell for cell in cells if cell.commit_delay_ms == delay]
        yield sides, delay, list(_rounds(own, sides, rounds, ABLATION_EXPERIMENT))


def _rounds(cells: Sequence[Cell], sides: Sequence[Side], rounds: int, experiment: str) -> Iterator[Run]:
    """All cells in every round; all sides back to back, in turn forwards and backwards.

    With more than two sides each begins in turn, so that none is always between the same others.
    """
    for round_number in range(1, rounds + 1):
        first = (round_number - 1) // 2 % max(1, len(sides) - 1)
        order = [*sides[first:], *sides[:first]]
        if not round_number % 2:
            order.reverse()
        for cell in cells:
            for side in order:
                yield Run(0, round_number, False, side, cell, experiment)
            order.reverse()


def _traced(cells: Sequence[Cell], sides: Sequence[Side], round_number: int) -> Iterator[Run]:
    for cell in cells:
        for side in sides:
            yield Run(0, round_number, True, side, cell, GRID_EXPERIMENT)


def _numbered(drafts: Sequence[Draft]) -> list[Group]:
    return numbered([Group(sides, delay, tuple(runs)) for sides, delay, runs in drafts])


def numbered(groups: Iterable[Group]) -> list[Group]:
    """The groups with their runs numbered from 1, in order."""
    numbers = itertools.count(1)
    return [
        attrs.evolve(group, runs=tuple(attrs.evolve(run, number=next(numbers)) for run in group.runs))
        for group in groups
    ]
