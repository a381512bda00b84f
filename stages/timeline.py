"""The stamps of one request, and what the server reports to those who observe it.

Rules of this room: it imports nothing of ours; a stamp is an int64 of nanoseconds of the machine's monotonic clock, so
that the stamps of a broker and of a client on the same machine can be compared.

    received -> enqueued -> dequeued -> handled -> decided -> submitted -> durable -> completed -> released
    -> send started -> sent

Stages are differences of two stamps; what they are called and which two they lie between is said by those who observe.
"""

import time
from typing import Any

__all__ = ["NO_STAMP", "STAMPS", "Stamps", "Timeline", "now_ns"]

now_ns = time.monotonic_ns
NO_STAMP = -(2**63)
"""The null of a number of 64 bits, as traces have it: the lowest value."""


class Stamps:
    """The stamps of a request, in the order in which they are taken.

    Attributes:
        received_ns: the whole frame was read.
        enqueued_ns: it was put on a request queue; 0 where nobody observes the request.
        dequeued_ns: a handler took it.
        handled_ns: the handler was done with it for the first time.
        decided_ns: no clock's reading, but `handled_ns` and the time that callbacks and later steps took: the handler
            would have been done with all of it by then, had no other request had a turn in between.
        submitted_ns, durable_ns: its entries were given to the committer, and are durable; NO_STAMP without any.
        completed_ns: its result is known.
        released_ns: every earlier response of the connection was released.
        send_started_ns, sent_ns: its bytes began to leave, and have left.
    """

    # 0 stands for a stage that was not passed. Requests have these values in common until they get their own.
    received_ns: int = 0
    enqueued_ns: int = 0
    dequeued_ns: int = 0
    handled_ns: int = 0
    decided_ns: int = 0
    submitted_ns: int = NO_STAMP
    durable_ns: int = NO_STAMP
    completed_ns: int = 0
    released_ns: int = 0
    send_started_ns: int = 0
    sent_ns: int = 0


STAMPS = tuple(Stamps.__annotations__)
"""Their names, in order."""


class Timeline:
    """Where the server reports what happened, when it is observed at all; called on the event loop, must not block.

    This one makes nothing of it; an observer overrides what it wants to hear of.

    Attributes:
        samples_queues: whether `queue_sampled` is to be called.
    """

    samples_queues = False

    @property
    def times_requests(self) -> bool:
        """Whether requests that are received now are stamped, and reported when they end.

        It is looked at whenever something was received.
        """
        return True

    def request_ended(self, request: Any) -> None:
        """The last byte of the response was sent, or the slot was released without bytes."""

    def request_dropped(self, request: Any) -> None:
        """The connection closed before the response was sent."""

    def commit_ended(self, commit: Any) -> None:
        """The entries of a commit are durable and their slots completed."""

    def mute_ended(self, connection_index: int, reason: int, began_ns: int, ended_ns: int) -> None:
        """A reason not to read a connection is gone."""

    def queue_sampled(self, queue: int, at_ns: int, depth: int) -> None:
        """A handler began a turn with so many requests waiting in its queue."""
