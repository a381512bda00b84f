"""Modes of the request path: frozen presets over three independent axes.

| axis | classic | pipelined |
|---|---|---|
| queues and handlers | 1 queue, M handlers | N queues, 1 handler each |
| in flight per connection | 1: muted until answered | 64, read again below that |
| persistence | one commit per request; its handler waits for it | one commit for all waiting submissions |

Both modes decide from the measured speed of the disk whether a commit runs on the event loop or in a thread;
experiments may fix that.
"""

import enum

import attrs

__all__ = ["CLASSIC", "MODES", "PIPELINED", "SHARED_QUEUE", "Batching", "CommitOn", "Mode"]

SHARED_QUEUE = 0
"""The number of queues that means "one queue, shared by all handlers"."""

IN_FLIGHT_MAX = 64
"""Maximum of unanswered requests of one connection, as in AutoMQ, whose first version had no bound and could run out of
memory."""

HANDLERS = 8
"""Kafka's default of `num.io.threads`: N in pipelined mode, M in classic mode."""


class Batching(enum.Enum):
    REQUEST = "request"
    """One commit per request; its handler waits for it."""
    GROUP = "group"
    """One commit for all entries submitted since the last commit began."""


class CommitOn(enum.Enum):
    AUTO = "auto"
    """The event loop if syncs are fast, else a thread (`stages.commit_place`)."""
    LOOP = "loop"
    """The event loop, or a thread if a write might block."""
    THREAD = "thread"
    """A thread, so that the next requests are parsed and handled during a sync."""


@attrs.frozen
class Mode:
    """A point in the space of the three axes.

    Attributes:
        name: shown in the ready line, traces and the report.
        queues: number of request queues; SHARED_QUEUE is one queue for all handlers.
        handlers: number of handlers of a shared queue; otherwise each queue has exactly one.
        in_flight_max: unanswered requests at which a connection is muted.
        batching: scope of one commit.
        commit_on: whether commits run on the event loop or in a thread.
    """

    name: str
    queues: int = attrs.field(validator=attrs.validators.ge(SHARED_QUEUE))
    handlers: int = attrs.field(validator=attrs.validators.ge(1))
    in_flight_max: int = attrs.field(validator=attrs.validators.ge(1))
    batching: Batching
    commit_on: CommitOn = CommitOn.AUTO

    @property
    def is_shared_queue(self) -> bool:
        return self.queues == SHARED_QUEUE

    @property
    def is_group_commit(self) -> bool:
        return self.batching is Batching.GROUP


CLASSIC = Mode(name="classic", queues=SHARED_QUEUE, handlers=HANDLERS, in_flight_max=1, batching=Batching.REQUEST)
PIPELINED = Mode(
    name="pipelined", queues=HANDLERS, handlers=HANDLERS, in_flight_max=IN_FLIGHT_MAX, batching=Batching.GROUP
)
MODES = {mode.name: mode for mode in (CLASSIC, PIPELINED)}
