"""What is run: a load on a side, in a round.

Rules of this file: data only. A cell is a load that all sides are driven with, a group the runs that share brokers.
"""

import attrs

from pipeline_broker.measure.experiment.factors import (
    ORDINARY_BROKER,
    ORDINARY_REQUESTS,
    BrokerFactors,
    Offer,
    RequestFactors,
    variant,
)

RAW = "raw"
REPLAY = "replay"
READER = "raw-reads"
"""The native client, which reads a topic from its start to its end, again and again."""
PAIRS = "publish-to-consume"
"""Pairs of a producer and a consumer of confluent-kafka, timed from one to the other."""
COMMAND = "command"
"""A client of the user, a command."""
BOOTSTRAP = "{bootstrap}"
"""The place of the broker's address in it."""
CONFLUENT = "confluent-kafka linger={}"
CONFLUENT_IN_FLIGHT = 5  # of an idempotent librdkafka producer at its defaults

GRID_EXPERIMENT = "grid"
SWEEP_EXPERIMENT = "sweep"
ABLATION_EXPERIMENT = "ablation"
REPLAY_EXPERIMENT = "replay"
CLIENTS_EXPERIMENT = "clients"
CONSUMERS_EXPERIMENT = "consumers"
COMMAND_EXPERIMENT = "command"
PAGE_CACHE_EXPERIMENT = "page-cache"
LADDER_EXPERIMENT = "ladder"
SELF_EXPERIMENT = "self"


@attrs.frozen(slots=True)
class Cell:
    """A load; each side is driven with it.

    Attributes:
        offer: what an open loop of the raw client sends; None: a closed loop.
        is_self: whether both sides are the same mode, which shows what the machine alone makes of equals.
    """

    client: str
    in_flight: int
    connections: int
    commit_delay_ms: float = 0.0
    linger_ms: int | None = None
    broker: BrokerFactors = ORDINARY_BROKER
    requests: RequestFactors = ORDINARY_REQUESTS
    offer: Offer | None = None
    is_self: bool = False

    @property
    def variant(self) -> str:
        """What else sets it apart from other cells; empty in an ordinary closed loop."""
        words = variant(self.broker, self.requests, self.offer)
        return f"{SELF_EXPERIMENT} {words}".strip() if self.is_self else words

    @property
    def uses_confluent(self) -> bool:
        """Return whether confluent-kafka drives the broker."""
        return self.client not in (RAW, REPLAY, READER, COMMAND)

    @property
    def is_open(self) -> bool:
        """Whether requests have moments of their own, whatever is answered."""
        return self.offer is not None or self.client == REPLAY


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
    """Runs of one round that share brokers, one a side; a traced run shares its broker with no other."""

    runs: tuple[Run, ...]

    @property
    def sides(self) -> tuple[Side, ...]:
        """The brokers that it needs."""
        return tuple(dict.fromkeys(run.side for run in self.runs))

    @property
    def round(self) -> int:
        """Return the round of its runs."""
        return self.runs[0].round

    @property
    def is_open(self) -> bool:
        """Return whether it comes after the closed loops, which tell what its shares are of."""
        return all(run.experiment == LADDER_EXPERIMENT for run in self.runs)

    @property
    def traced(self) -> bool:
        """Whether its runs are traced: all are, or none."""
        return self.runs[0].traced

    @property
    def commit_delay_ms(self) -> float:
        """Of its brokers."""
        return self.runs[0].cell.commit_delay_ms

    @property
    def broker(self) -> BrokerFactors:
        """How its brokers are started beside their mode."""
        return self.runs[0].cell.broker
