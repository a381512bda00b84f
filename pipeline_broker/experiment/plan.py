"""What is run, and in which order.

Rules of this file: no I/O; a plan is a list of groups, each with the runs that share one pair (or triple) of brokers,
in the order in which they happen; the sides take turns in going first, so that what drifts over an experiment hits
both. The numbers of the profiles stand here and nowhere else.
"""

from collections.abc import Iterator, Sequence

import attrs

RAW = "raw"
REPLAY = "replay"
CONFLUENT = "confluent-kafka linger={}"
CONFLUENT_IN_FLIGHT = 5  # of an idempotent librdkafka producer at its defaults

GRID_EXPERIMENT = "grid"
ABLATION_EXPERIMENT = "ablation"
REPLAY_EXPERIMENT = "replay"
CLIENTS_EXPERIMENT = "clients"

QUICK_IN_FLIGHT = (1, 5, 64)
QUICK_CONNECTIONS = (1, 16)
QUICK_DELAYS_MS = (0.0,)
QUICK_DELAYED = ((64, 1, 2.0), (64, 1, 10.0))  # in flight, connections, delay
ABLATION_LOAD = (64, 1)
LINGERS_MS = (0, 5)

# Mode of a run: the preset the broker is started with, and the axes overridden.
MODES: dict[str, tuple[str, dict[str, str]]] = {
    "classic": ("classic", {}),
    "pipelined": ("pipelined", {}),
    "mute-off": ("classic", {"pipeline.in.flight": "64"}),
    "group-commit": ("classic", {"pipeline.commit": "group"}),
    "both": ("classic", {"pipeline.in.flight": "64", "pipeline.commit": "group"}),
}
COMPARED_MODES = ("classic", "pipelined")
KAFKA_MODES = ("kafka-synced", "kafka")
"""Apache Kafka as it would have to run to lose nothing on one machine, and with its defaults."""
OTHER_BROKER = "other"
ABLATION_MODES = ("mute-off", "group-commit", "both")


@attrs.frozen(slots=True)
class Profile:
    """How much is run without options."""

    rounds: int
    rounds_of_parts: int  # clients and ablation
    producers: tuple[int, ...]
    replay_whole_year: bool
    run_s: float = 0.4
    warmup_s: float = 0.1


PROFILES = {
    "quick": Profile(rounds=5, rounds_of_parts=3, producers=(1, 16), replay_whole_year=False),
    "full": Profile(rounds=7, rounds_of_parts=7, producers=(1, 4, 16), replay_whole_year=True),
}


@attrs.frozen(slots=True)
class Cell:
    """A load; each side is driven with it."""

    client: str
    in_flight: int
    connections: int
    commit_delay_ms: float = 0.0
    linger_ms: int | None = None


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
    delays = request.delays_ms or QUICK_DELAYS_MS
    cells = [
        Cell(RAW, in_flight, connections, delay)
        for delay in delays
        for connections in request.connections or QUICK_CONNECTIONS
        for in_flight in request.in_flight or QUICK_IN_FLIGHT
    ]
    if not request.chosen_grid:
        cells += [Cell(RAW, *load) for load in QUICK_DELAYED]
    return cells


def plan(request: Request) -> list[Group]:
    """Everything that is to be run, in order, numbered from 1."""
    profile = PROFILES[request.profile]
    sides = tuple(Side(mode, number) for number, mode in enumerate(request.modes))
    others = tuple(Side(mode, number) for number, mode in enumerate(request.others, start=len(sides)))
    rounds = request.rounds or profile.rounds
    parts = min(rounds, profile.rounds_of_parts)
    cells = grid(request)
    delays = list(dict.fromkeys(cell.commit_delay_ms for cell in cells))
    drafts: list[tuple[tuple[Side, ...], float, list[Run]]] = []
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
            triple = tuple(Side(mode, 1) for mode in ABLATION_MODES)
            drafts.append((triple, 0.0, list(_rounds([Cell(RAW, *ABLATION_LOAD)], triple, parts, ABLATION_EXPERIMENT))))
    return _numbered(drafts)


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


def _numbered(drafts: Sequence[tuple[tuple[Side, ...], float, list[Run]]]) -> list[Group]:
    groups = []
    number = 0
    for sides, delay, runs in drafts:
        numbered = tuple(attrs.evolve(run, number=number + index) for index, run in enumerate(runs, start=1))
        number += len(runs)
        groups.append(Group(sides, delay, numbered))
    return groups
