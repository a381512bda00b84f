"""The modes: frozen presets over three independent axes.

Rules of this room: it imports nothing of ours and decides nothing; the rooms that act read one field each.

| axis | classic | pipelined |
|---|---|---|
| queues and handlers | 1 queue, M handlers | N queues, 1 handler each |
| in flight per connection | 1: muted until answered | 64, resume below |
| persistence | a commit per request, which its handler waits for | one commit for all that waits |

Both decide from the speed of the disk where a commit runs; experiments may fix it.
"""

import enum

import attrs

__all__ = ["CLASSIC", "MODES", "PIPELINED", "SHARED_QUEUE", "Batching", "CommitOn", "Mode"]

SHARED_QUEUE = 0
"""The number of queues that stands for "one queue, shared by all handlers"."""

IN_FLIGHT_MAX = 64
"""AutoMQ's bound of unanswered requests of one connection; its first version had none and risked the memory."""

HANDLERS = 8
"""Kafka's default of `num.io.threads`: N in pipelined mode, M in classic mode."""


class Batching(enum.Enum):
    """What one commit holds."""

    REQUEST = "request"
    """The entries of one request; its handler waits for it."""
    GROUP = "group"
    """All entries that were submitted since the last commit began."""


class CommitOn(enum.Enum):
    """The runner of commits."""

    AUTO = "auto"
    """The event loop where the sync is fast, else a thread (`stages.commit_place`)."""
    LOOP = "loop"
    """The event loop; a thread where a write might wait."""
    THREAD = "thread"
    """A thread: the next request is parsed and handled while one is synced."""


@attrs.frozen
class Mode:
    """One point in the space of the three axes.

    Attributes:
        name: what the ready line, the traces and the report call it.
        queues: number of request queues; SHARED_QUEUE is one queue for all handlers.
        handlers: number of handlers on a shared queue; with own queues each has exactly one.
        in_flight_max: unanswered requests of one connection at which it is muted.
        batching: what one commit holds.
        commit_on: what runs a commit.
    """

    name: str
    queues: int = attrs.field(validator=attrs.validators.ge(SHARED_QUEUE))
    handlers: int = attrs.field(validator=attrs.validators.ge(1))
    in_flight_max: int = attrs.field(validator=attrs.validators.ge(1))
    batching: Batching
    commit_on: CommitOn = CommitOn.AUTO

    @property
    def is_shared_queue(self) -> bool:
        """Whether all handlers take from one queue."""
        return self.queues == SHARED_QUEUE

    @property
    def is_group_commit(self) -> bool:
        """Whether one commit holds all that waits."""
        return self.batching is Batching.GROUP


CLASSIC = Mode(name="classic", queues=SHARED_QUEUE, handlers=HANDLERS, in_flight_max=1, batching=Batching.REQUEST)
PIPELINED = Mode(
    name="pipelined", queues=HANDLERS, handlers=HANDLERS, in_flight_max=IN_FLIGHT_MAX, batching=Batching.GROUP
)
MODES = {mode.name: mode for mode in (CLASSIC, PIPELINED)}
