"""The terms of an experiment: loads (cells), compared brokers (sides), runs, and groups of runs that share brokers."""

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
"""The native client, reading a topic from start to end, repeatedly."""
PAIRS = "publish-to-consume"
"""Pairs of a producer and a consumer of confluent-kafka, timed from publish to consume."""
COMMAND = "command"
"""A command of the user."""
BOOTSTRAP = "{bootstrap}"
"""Placeholder for the broker's address in a command."""
CONFLUENT = "confluent-kafka linger={}"
CONFLUENT_IN_FLIGHT = 5  # default of an idempotent librdkafka producer

GRID_EXPERIMENT = "grid"
"""The native client in a closed loop."""
SWEEP_EXPERIMENT = "sweep"
"""Runs that a file defines."""
ABLATION_EXPERIMENT = "ablation"
"""Brokers that differ in one axis."""
REPLAY_EXPERIMENT = "replay"
"""Recorded events."""
CLIENTS_EXPERIMENT = "clients"
"""Producers of confluent-kafka."""
CONSUMERS_EXPERIMENT = "consumers"
"""Readers and pairs."""
COMMAND_EXPERIMENT = "command"
"""The user's own client."""
PAGE_CACHE_EXPERIMENT = "page-cache"
"""Loads of brokers that do not wait for the disk."""
LADDER_EXPERIMENT = "ladder"
"""The native client in an open loop, at shares of a capacity."""
SELF_EXPERIMENT = "self"
"""A mode compared with itself on two brokers, as sides 0 and 1."""


@attrs.frozen(slots=True)
class Cell:
    """A load that each side is driven with.

    Attributes:
        offer: rate of an open loop of the native client; None for a closed loop.
        is_self: whether both sides have the same mode, which shows the variation that the machine alone causes.
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
        """Further differences to other cells; empty in an ordinary closed loop."""
        words = variant(self.broker, self.requests, self.offer)
        return f"{SELF_EXPERIMENT} {words}".strip() if self.is_self else words

    @property
    def uses_confluent(self) -> bool:
        return self.client not in (RAW, REPLAY, READER, COMMAND)

    @property
    def is_open(self) -> bool:
        """Return whether requests have intended times that do not depend on answers."""
        return self.offer is not None or self.client == REPLAY


@attrs.frozen(slots=True)
class Side:
    """One of the compared brokers: its mode, and its position in the pair."""

    mode: str
    number: int


@attrs.frozen(slots=True)
class Run:
    number: int
    round: int
    traced: bool
    side: Side
    cell: Cell
    experiment: str


@attrs.frozen(slots=True)
class Group:
    """Runs of one round that share brokers, one for each side. A traced run shares its broker with no other run."""

    runs: tuple[Run, ...]

    @property
    def sides(self) -> tuple[Side, ...]:
        return tuple(dict.fromkeys(run.side for run in self.runs))

    @property
    def round(self) -> int:
        return self.runs[0].round

    @property
    def is_open(self) -> bool:
        """Return whether all runs are offers of the ladder, which need the capacities of the closed loops first."""
        return all(run.experiment == LADDER_EXPERIMENT for run in self.runs)

    @property
    def traced(self) -> bool:
        return self.runs[0].traced

    @property
    def commit_delay_ms(self) -> float:
        return self.runs[0].cell.commit_delay_ms

    @property
    def broker(self) -> BrokerFactors:
        return self.runs[0].cell.broker
