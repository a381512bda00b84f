"""The stamps of a request: times at which it passed from one stage to the next.

    received -> enqueued -> dequeued -> handled -> decided -> submitted -> durable -> completed -> released
    -> send started -> sent

A stamp is an int64 of nanoseconds of the machine's monotonic clock. So the stamps of a broker and of a client on the
same machine can be compared. A stage is the difference of two stamps; observers define the stages.

Counterpart in Kafka: `RequestChannel.Request` and its times.
"""

import time
from typing import Final

__all__ = ["NO_STAMP", "STAMPS", "Stamps", "now_ns"]

now_ns: Final = time.monotonic_ns
NO_STAMP: Final = -(2**63)
"""The null value of a stamp: the lowest 64-bit integer, as in traces."""


class Stamps:
    """The stamps of a request, in the order in which they are taken.

    Attributes:
        received_ns: its whole frame was read.
        enqueued_ns: it was put on a request queue; 0 if the request is not timed.
        dequeued_ns: a handler took it.
        handled_ns: the first call of `handle` returned.
        decided_ns: `handled_ns` plus the time of callbacks and later steps. Not read from a clock: the time at which
            the handler would have finished, had no other request had a turn in between.
        submitted_ns: its entries were submitted to the committer; NO_STAMP without entries.
        durable_ns: its entries became durable; NO_STAMP without entries.
        completed_ns: its result is known.
        released_ns: every earlier response of the connection was released.
        send_started_ns: the send of its first byte began.
        sent_ns: its last byte was sent.
    """

    # Class attributes, because most requests are not timed. 0 means that the request did not reach this stage.
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


STAMPS: Final = tuple(name for name in vars(Stamps) if name.endswith("_ns"))
"""The names of the stamps, in order."""
